import t, { type Test } from 'tap'
import { type GitRepository, readGitRepository } from '../../../src/agentk/modules/flux/flux-objects.ts'
import { FluxWatch } from '../../../src/agentk/modules/flux/flux-watch.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { FluxApi } from './flux-api.ts'

/** Lists of objects of one kind: large ones, and repeated ones. */

const times = { firstRetryMs: 1000, maxRetryMs: 1000, relistMs: 600_000 }
const url = 'https://gitlab.example.com/apps/web'
const mib = 1024 * 1024

async function watchRepositories(t: Test, prepare: (api: FluxApi) => void) {
  const api = await FluxApi.start(t)
  prepare(api)
  const { log, lines } = capturedLog()
  const clock = new ManualClock()
  const watch = new FluxWatch<GitRepository>(
    { client: api.client, log, clock, random: () => 0.5, read: readGitRepository, onChange: () => undefined },
    { path: '/apis/source.toolkit.fluxcd.io/v1/gitrepositories', resource: 'gitrepositories', times },
  )
  const stopping = new AbortController()
  const running = watch.run(stopping.signal)
  t.teardown(() => {
    stopping.abort()
    return running
  })
  const lists = () => api.requests.filter((each) => each === 'list gitrepositories').length
  return { api, clock, watch, lists, lines }
}

function putLarge(api: FluxApi, name: string, bytes: number): void {
  api.put('gitrepositories', `apps/${name}`, { metadata: { annotations: { a: 'x'.repeat(bytes) } }, spec: { url } })
}

t.test('a page that is too large is asked for in smaller ones', async (t) => {
  const { watch, lists, lines } = await watchRepositories(t, (api) => {
    for (let i = 0; i < 30; i++) putLarge(api, `small${i}`, 10)
    for (let i = 0; i < 30; i++) putLarge(api, `large${i}`, 0.3 * mib)
    putLarge(api, 'largest', 3.9 * mib)
  })
  await eventually(() => watch.isSynced)
  t.equal(watch.objects.size, 61)
  t.ok(lists() < 20, 'and not one by one')
  t.strictSame(lines, [])
})

t.test('one object that is too large is told once, with its place, and read again once it is smaller', async (t) => {
  const { api, clock, watch, lists, lines } = await watchRepositories(t, (api) => {
    putLarge(api, 'first', 10)
    putLarge(api, 'huge', 4.5 * mib)
  })
  const halves = 6 // pages of 50, 25, 12, 6, 3 and 1
  for (const round of [1, 2]) {
    await eventually(() => lists() === round * (halves + 1) && clock.waits.length === 1) // `first` is on its own page
    await clock.pass(1000)
  }
  t.match(lines, [{ level: 'warn', resource: 'gitrepositories', count: 2, error: { code: 'MESSAGE_TOO_LARGE' } }])
  t.equal(lines.length, 1)
  t.notOk(watch.isSynced)
  putLarge(api, 'huge', 10)
  await eventually(async () => {
    await clock.pass(1000)
    if (!watch.isSynced) throw new Error('not read yet')
  })
  t.equal(watch.objects.size, 2)
})

t.test('all is listed again after a while, whatever the watches have told', async (t) => {
  const { api, clock, watch, lists } = await watchRepositories(t, () => undefined)
  await eventually(() => api.watches === 1)
  api.isSilent = true
  api.put('gitrepositories', 'apps/untold', { spec: { url } })
  const nextWatch = async (ms: number) => {
    await clock.pass(ms)
    const watched = api.requests.filter((each) => each === 'watch gitrepositories').length
    api.endWatches(200)
    await eventually(() => api.requests.filter((each) => each === 'watch gitrepositories').length > watched)
    await eventually(() => api.watches === 1)
  }
  await nextWatch(60_000)
  t.equal(lists(), 1, 'a watch goes on from the one before it')
  t.equal(watch.objects.size, 0)
  for (let i = 0; i < 9; i++) await nextWatch(60_000)
  t.equal(lists(), 2)
  t.strictSame([...watch.objects.keys()], ['apps/untold'])
})

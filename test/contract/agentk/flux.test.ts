import assert from 'node:assert/strict'
import t from 'tap'
import { followPushes } from '../../../src/agentk/modules/flux/push-stream.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { kasOf, silentLog } from './agent-side.ts'
import { startFlux, startPushesKas } from './flux-side.ts'

/** Tests agentk's Flux module with a kas, an API server and Flux's webhooks. */

const web = 'https://gitlab.example.com/apps/web.git'
const api_ = 'ssh://git@gitlab.example.com/apps/api.git'

// wire: agentk.flux.stream, agentk.flux.receiver, agentk.flux.webhook
t.test('follows the projects of GitRepositories, makes their Receivers, and calls them', async (t) => {
  const { api, next, called, isCalled, configure, isSaid, countOf } = await startFlux(t)
  api.repository('apps/web', web)
  api.repository('other/elsewhere', 'https://github.com/apps/web')
  configure()
  const { projects, tell, stream } = await next()
  t.strictSame(projects, ['apps/web'])
  t.strictSame(stream.metadata.authorization, ['Bearer token'])
  await isSaid(/^Made a Receiver$/)
  t.strictSame([...api.secrets], ['apps/gitlab-receiver-web'])
  tell('apps/web', 1n) // the Receiver has no path from Flux yet
  api.ready('apps/gitlab-web')
  await isCalled(1)
  tell('none/such', 2n)
  tell('apps/web', 3n)
  await isCalled(2)
  t.strictSame(called, ['POST /hook/apps-gitlab-web', 'POST /hook/apps-gitlab-web'])
  await eventually(async () => assert.equal(await countOf('agentk_flux_webhooks_total'), 2))
})

// wire: agentk.flux.back-off
t.test('the stream is opened again when it ends, and what is sent again is called once', async (t) => {
  const { api, kas, next, called, isCalled, configure, isSaid } = await startFlux(t)
  api.repository('apps/web', web)
  configure()
  let stream = await next()
  await isSaid(/^Made a Receiver$/)
  api.ready('apps/gitlab-web')
  stream.tell('apps/web', 1n)
  await isCalled(1)
  kas.sessions.at(-1)?.destroy()
  stream = await next()
  t.strictSame(stream.projects, ['apps/web'], 'its connection was lost')
  stream.tell('apps/web', 1n)
  stream.tell('apps/web', 2n)
  await isCalled(2)
  stream.end()
  stream = await next()
  stream.tell('apps/web', 2n)
  api.repository('apps/api', api_)
  stream = await next()
  t.strictSame(stream.projects, ['apps/api', 'apps/web'], 'the projects are others')
  stream.tell('apps/web', 1n)
  await eventually(() => api.get('receivers', 'apps/gitlab-api') ?? Promise.reject(new Error('not made yet')))
  api.ready('apps/gitlab-api')
  stream.tell('apps/api', 3n)
  await isCalled(3)
  t.strictSame(called.slice(1), ['POST /hook/apps-gitlab-web', 'POST /hook/apps-gitlab-api'])
  api.remove('gitrepositories', 'apps/web')
  api.remove('gitrepositories', 'apps/api')
  api.remove('receivers', 'apps/gitlab-web')
  api.remove('receivers', 'apps/gitlab-api')
  await eventually(() => stream.stream.signal.aborted || Promise.reject(new Error('still open')))
})

t.test('a kas that has no ids is believed each time', async (t) => {
  const { api, next, isCalled, configure, isSaid } = await startFlux(t)
  api.repository('apps/web', web)
  configure()
  const { tell } = await next()
  await isSaid(/^Made a Receiver$/)
  api.ready('apps/gitlab-web')
  for (const count of [1, 2, 3]) {
    tell('apps/web')
    await isCalled(count)
  }
})

t.test('a webhook that fails is called again, and given up with one warning that holds no secret', async (t) => {
  const options = { webhooks: { retryMs: [5, 10] as const, maxAttempts: 3 } }
  const { api, next, answers, called, isCalled, configure, isSaid, lines, countOf } = await startFlux(
    t,
    undefined,
    options,
  )
  api.repository('apps/web', web)
  configure()
  const { tell } = await next()
  await isSaid(/^Made a Receiver$/)
  api.ready('apps/gitlab-web')
  answers.push(500, 404)
  tell('apps/web', 1n)
  await isCalled(3)
  answers.push(500, 500, 302)
  tell('apps/web', 2n)
  await isSaid(/^Flux could not be notified of a push, it finds it/)
  t.equal(await countOf('agentk_flux_webhooks_total'), 1)
  t.equal(await countOf('agentk_flux_webhooks_failed_total'), 1)
  t.strictSame([...new Set(called)], ['POST /hook/apps-gitlab-web'], 'nor is it followed to elsewhere')
  t.notMatch(JSON.stringify(lines), /\/hook\//)
})

t.test('the pod that does not lead does nothing', async (t) => {
  const { terms, api, kas, next, called, configure, lead, hold, isSaid, isCalled } = await startFlux(t)
  lead(false)
  api.repository('apps/web', web)
  configure()
  t.strictSame(api.requests, [])
  lead(true)
  const { tell, stream } = await next()
  await isSaid(/^Made a Receiver$/)
  api.ready('apps/gitlab-web')
  hold(false, false)
  tell('apps/web', 1n)
  await isSaid(/^A push waits until this pod leads again, or another does$/)
  lead(false)
  await isSaid(/^Flux is not notified of a push: this pod does not lead any more/)
  await eventually(() => stream.signal.aborted || Promise.reject(new Error('still open')))
  await eventually(() => api.watches === 0 || Promise.reject(new Error('still watching')))
  t.strictSame(called, [])
  lead(true)
  const again = await next()
  again.tell('apps/web', 1n) // this push was not handled
  await isCalled(1)
  await terms.stop()
  await eventually(() => api.watches === 0 || Promise.reject(new Error('still watching')))
  t.equal(kas.sessions.length, 1)
})

for (const [title, isTold] of [
  ['was frozen', false],
  ['cannot renew', true],
] as const) {
  t.test(`what a pod that ${title} hears of waits until it leads again`, async (t) => {
    const { api, next, streams, called, configure, hold, isSaid, says, isCalled } = await startFlux(t)
    api.repository('apps/web', web)
    configure()
    const { tell } = await next()
    await isSaid(/^Made a Receiver$/)
    api.ready('apps/gitlab-web')
    tell('apps/web', 1n)
    await isCalled(1)
    hold(false, isTold)
    tell('apps/web', 2n)
    tell('apps/web', 3n)
    await isSaid(/^A push waits until this pod leads again/, 2)
    api.put('gitrepositories', 'apps/api', { spec: { url: api_ } })
    const { projects } = await next()
    t.strictSame(projects, ['apps/api', 'apps/web'], 'it looks on')
    t.notOk(api.get('receivers', 'apps/gitlab-api'))
    t.equal(called.length, 1, 'and does nothing')
    hold(true, isTold)
    await isCalled(2)
    await isSaid(/^Made a Receiver$/, 2)
    t.equal(called.length, 2, 'two are one call')
    t.strictSame(streams, [], 'no other stream was opened')
    t.strictSame(says(/^Flux is not notified of a push/), [])
  })
}

// wire: agentk.flux.webhook-url
t.test('flux.webhook_receiver_url', async (t) => {
  const { api, next, called, configure, isSaid, says, lines, webhookUrl, isCalled } = await startFlux(t)
  api.repository('apps/web', web)
  configure('ftp://user:password@x')
  t.equal(says(/^flux\.webhook_receiver_url cannot be used/).length, 1)
  t.notMatch(JSON.stringify(lines), /password@/)
  const { tell } = await next()
  await isSaid(/^Made a Receiver$/)
  api.ready('apps/gitlab-web')
  const others: string[] = []
  api.onOther = (path) => {
    others.push(path)
    return 200
  }
  const proxy = '/api/v1/namespaces/flux-system/services/http:webhook-receiver:80/proxy'
  configure(proxy)
  tell('apps/web', 1n)
  await eventually(() => others.length > 0 || Promise.reject(new Error('not called')))
  t.strictSame(others, [`${proxy}/hook/apps-gitlab-web`], 'through the API server')
  configure(`${webhookUrl}/base/`)
  tell('apps/web', 2n)
  await isCalled(1)
  t.strictSame(called, ['POST /base/hook/apps-gitlab-web'])
})

// wire: agentk.flux.back-off
t.test('an error of kas is followed by a pause of 10 s and more, a lost connection by none', async (t) => {
  const { kas, sessions, next } = await startPushesKas(t)
  const clock = new ManualClock()
  const stopping = new AbortController()
  const pushes: [string, bigint][] = []
  const onPush = (project: string, id: bigint) => void pushes.push([project, id])
  const components = { kas: kasOf(sessions), onPush, log: silentLog, clock, random: () => 0 }
  const following = followPushes(components, ['apps/web'], stopping.signal)
  for (const ms of [10_000, 20_000, 40_000]) {
    ;(await next()).end(new KasError({ code: 'DIRECTORY_UNAVAILABLE' }))
    await eventually(() => clock.waits.includes(ms) || Promise.reject(new Error(`${clock.waits}`)))
    await clock.pass(ms)
  }
  const stream = await next()
  stream.tell('apps/web', 2n ** 64n - 1n)
  await eventually(() => pushes.length > 0 || Promise.reject(new Error('not told')))
  t.strictSame(pushes, [['apps/web', 2n ** 64n - 1n]])
  kas.sessions[0]?.destroy()
  const { end } = await next()
  t.strictSame(clock.waits, [])
  await clock.pass(1000)
  end()
  const last = await next()
  t.strictSame(clock.waits, [], 'nor is the end of one that has lived')
  stopping.abort()
  await following
  await eventually(() => last.stream.signal.aborted || Promise.reject(new Error('still open')))
})

t.test('a kas that ends each stream at once is not asked in a loop', async (t) => {
  const { sessions, next, streams } = await startPushesKas(t)
  const clock = new ManualClock()
  const stopping = new AbortController()
  const components = {
    kas: kasOf(sessions),
    onPush: () => undefined,
    log: silentLog,
    clock,
    random: () => 0,
  }
  const following = followPushes(components, ['apps/web'], stopping.signal)
  ;(await next()).end()
  await eventually(() => clock.waits.includes(1000) || Promise.reject(new Error('no pause')))
  t.strictSame(streams, [])
  await clock.pass(1000)
  await next()
  stopping.abort()
  await following
})

import t, { type Test } from 'tap'
import {
  ManifestsThread,
  type ManifestsThreadOptions,
} from '../../../../../../src/agentk/modules/gitops/build/manifests-thread.ts'
import { readManifests } from '../../../../../../src/agentk/modules/gitops/manifests/read-manifests.ts'
import { maxDocuments } from '../../../../../../src/agentk/modules/gitops/manifests/round-budget.ts'
import { commitTurns } from '../../../../../../src/agentk/modules/gitops/render/renderer.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const { signal } = new AbortController()
const options = { resourceExclusions: [], defaultNamespace: 'shop' }
const scopes = new Map([['ConfigMap', true]])

const map = (name: string, data = '{ a: "1" }') => `
apiVersion: v1
kind: ConfigMap
metadata: { name: ${name} }
data: ${data}
---`
const jobOf = (...texts: string[]) => ({
  files: texts.map((text, index) => ({ path: `${index}.yaml`, data: Buffer.from(text) })),
  scopes,
  options,
})

function start(t: Test, limits: Partial<ManifestsThreadOptions> = {}) {
  const clock = new ManualClock()
  const thread = new ManifestsThread(
    { clock, turns: commitTurns(1), log: capturedLog().log },
    { memoryLimitMb: 1024, ...limits },
  )
  t.teardown(() => thread.stop())
  return { clock, thread }
}

t.test('the same as without a thread, in order; files stay as they are', async (t) => {
  const { thread } = start(t)
  const names = Array.from({ length: 300 }, (_, index) => `m${index}`)
  const job = jobOf(names.map((name) => map(name)).join(''), 'apiVersion: x/v1\nkind: New\nmetadata: { name: new }')
  const expected = readManifests(job)
  t.equal(expected.manifests.length, 301)
  t.strictSame(await thread.read('shop', job, signal), expected)
  t.ok(job.files.every(({ data }) => data.length > 0))
  const bad = jobOf(map('a'), 'kind: [')
  t.strictSame(await thread.read('shop', bad, signal), readManifests(bad))
  t.match(await thread.read('shop', jobOf(map('a')), signal), { problems: [], manifests: [{ key: { name: 'a' } }] })
})

t.test('between parts other work has its turn', async (t) => {
  const { thread } = start(t)
  const large = `{ a: "${'x'.repeat(300_000)}" }`
  let turns = 0
  let isRead = false
  const turn = () => {
    turns += 1
    if (!isRead) setImmediate(turn)
  }
  const reading = thread.read(
    'shop',
    jobOf(...Array.from({ length: 10 }, (_, index) => map(`m${index}`, large))),
    signal,
  )
  setImmediate(turn)
  const { manifests } = await reading
  isRead = true
  t.equal(manifests.length, 10)
  t.ok(turns >= 10, `${turns} turns`)
})

t.test('one after another; who leaves is not read, and whoever follows is', async (t) => {
  const { thread } = start(t)
  const left = new AbortController()
  const many = jobOf(Array.from({ length: 3000 }, (_, index) => map(`m${index}`)).join(''))
  const [first, second, third] = [
    thread.read('shop', many, left.signal),
    thread.read('shop', many, left.signal),
    thread.read('shop', jobOf(map('last')), signal),
  ]
  left.abort(new Error('left'))
  await t.rejects(first, /left/)
  await t.rejects(second, /left/)
  t.match(await third, { manifests: [{ key: { name: 'last' } }] })
})

t.test('projects take turns', async (t) => {
  const { thread } = start(t)
  const order: string[] = []
  const reads = ['many', 'many', 'many', 'one'].map(async (project) => {
    await thread.read(project, jobOf(map('a')), signal)
    order.push(project)
  })
  await Promise.all(reads)
  t.strictSame(order, ['many', 'many', 'one', 'many'])
})

t.test('what takes too long is an error that may pass; what takes too much memory is refused', async (t) => {
  const { clock, thread } = start(t, { timeLimitMs: 1000 })
  const reading = thread.read('shop', jobOf(map('slow')), signal)
  while (clock.pending === 0) await Promise.resolve() // until the read has its turn
  clock.advance(1000)
  await t.rejects(reading, {
    message: 'not read in 1 s: the commit has too much, or agentk too little CPU; it is tried again',
  })
  t.match(await thread.read('shop', jobOf(map('next')), signal), { manifests: [{ key: { name: 'next' } }] })

  const small = start(t, { memoryLimitMb: 16 })
  const wide = jobOf(map('wide', `{ ${Array.from({ length: 200_000 }, (_, index) => `k${index}: "1"`).join(', ')} }`))
  t.match(await small.thread.read('shop', wide, signal), { problems: [{ file: '0.yaml', text: /too many values/ }] })
  t.match(await small.thread.read('shop', jobOf(map('next')), signal), { problems: [] })

  const tiny = start(t, { memoryLimitMb: 4 })
  t.match(await tiny.thread.read('shop', jobOf(map('any')), signal), {
    manifests: [],
    problems: [{ text: /4 MiB of memory/ }],
  })
})

t.test('a thread that has nothing to do ends, and begins again', async (t) => {
  const { clock, thread } = start(t, { idleMs: 1000 })
  await thread.read('shop', jobOf(map('one')), signal)
  clock.advance(1000)
  t.equal(clock.pending, 0)
  t.match(await thread.read('shop', jobOf(map('two')), signal), { manifests: [{ key: { name: 'two' } }] })
})

t.test('a chart that prints more templates than documents may be is refused', async (t) => {
  const { thread } = start(t)
  const chart = { chart: 'web', values: [], release: 'web' }
  const printed = (count: number) => ({
    ...jobOf(Array.from({ length: count }, (_, i) => `---\n# Source: web/${i}\n`).join('')),
    chart,
  })
  t.strictSame(await thread.read('shop', printed(maxDocuments), signal), { manifests: [], problems: [] })
  t.match(await thread.read('shop', printed(maxDocuments + 1), signal), {
    manifests: [],
    problems: [{ file: 'web', text: `the chart prints more than ${maxDocuments} documents` }],
  })
})

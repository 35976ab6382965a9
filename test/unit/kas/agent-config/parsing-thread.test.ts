import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { type ParsingAnswer, parsingAnswer } from '../../../../src/kas/agent-config/parsing-answer.ts'
import { ParsingThread } from '../../../../src/kas/agent-config/parsing-thread.ts'
import { echoSchemas } from '../../../contract/modules/echo/module-schemas.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const maxFileBytes = 131_072
const job = (text: string, file = 'c.yaml') => ({ file, bytes: Buffer.from(text) })
const dense = `ci_access: {projects: [{id: a, environments: [${'a,'.repeat(39_000)}]}]}`
const outcome = ({ costMs: _, ...told }: ParsingAnswer) => told

function start(t: Test, options = {}) {
  const workers: Worker[] = []
  const note = (message: unknown) => void workers.push((message as { worker: Worker }).worker)
  subscribe('worker_threads', note)
  const clock = new ManualClock()
  const limits: string[] = []
  const thread = new ParsingThread(
    { clock, metrics: { limited: (by) => void limits.push(by) } },
    { program: echoSchemas.program, maxFileBytes, ...options },
  )
  t.teardown(async () => {
    await thread.stop()
    unsubscribe('worker_threads', note)
  })
  return { thread, clock, limits, workers, alive: () => workers.filter(({ threadId }) => threadId !== -1).length }
}

t.test('the answer is what this thread would have found, and so is the error', async (t) => {
  const { thread, alive, clock } = start(t)
  const texts = [
    '',
    'ci_access: { projects: [{ id: G/P, access_as: { impersonate: { username: u } }, environmnts: [x] }, { id: G/P }] }',
    'user_access: { access_as: { user: {} }, projects: [{ id: x }] }\nflux: { webhook_receiver_url: u }\nfluks: 2020-01-01',
    'remote_development: { partial_sync_interval: 1.5s, network_policy: { egress: [{ allow: 0.0.0.0/0 }] } }\na: 1e400',
    'gitops: { manifest_projects: [{ id: x, reconcile_timeout: 30s, ref: { tag: v1 } }] }',
    'echo: { words: [1, "a"], since: 2020-01-01, none: }\nfluks: 1',
    `echo: ${'x'.repeat(20_000)}`,
    'ci_access: [',
    'ci_access: { projects: [{ id: 5 }] }',
    'ci_access: { projects: [{ id: a, access_as: {} }] }',
    `a: [${'1,'.repeat(41_000)}]`,
  ]
  for (const text of texts) {
    t.strictSame(
      outcome(await thread.parse(job(text))),
      outcome(parsingAnswer(job(text), echoSchemas.list)),
      text.slice(0, 40),
    )
  }
  t.strictSame(outcome(await thread.parse({ ...job(''), bytes: Uint8Array.of(0x61, 0xff) })), {
    refusal: { code: 'CONFIGURATION_INVALID', detail: 'c.yaml: not UTF-8' },
  })
  t.equal(alive(), 1, 'one thread for all')
  clock.advance(10_000)
  await thread.stop()
  t.equal(alive(), 0)
})

t.test('what is deep is refused, or can be passed on', async (t) => {
  const { thread } = start(t)
  for (const depth of [100, 300, 600, 1000, 2000]) {
    const answer = await thread.parse(job(`a: ${'['.repeat(depth)}${']'.repeat(depth)}`))
    if ('configuration' in answer) t.ok(JSON.stringify(answer.configuration.raw).length > 2 * depth)
    else t.match(answer, { refusal: { code: 'CONFIGURATION_INVALID', detail: /not YAML: Maximum call stack size/ } })
  }
})

t.test('a file that takes too long is refused, and the next one is read', async (t) => {
  const { thread, clock, workers, alive, limits } = start(t)
  const slow = thread.parse(job(dense, 'slow.yaml'))
  const next = thread.parse(job('a: 1'))
  await new Promise(setImmediate)
  clock.advance(15_000)
  const told = 'slow.yaml: not read within 15 s: it is too large, or nested too deeply'
  t.same(await slow, { refusal: { code: 'CONFIGURATION_INVALID', detail: told }, costMs: 15_000 })
  t.same(limits, ['time'])
  t.match(await next, { configuration: { raw: { a: 1 } } })
  t.equal(workers.length, 2)
  clock.advance(10_000)
  await thread.stop()
  t.equal(alive(), 0)
})

t.test('a file that needs too much memory ends its thread, and nothing else', async (t) => {
  const { thread, workers, limits } = start(t, { memoryLimitMb: 32 })
  t.match(await thread.parse(job(`a: [${'{},'.repeat(43_000)}]`)), {
    refusal: {
      code: 'CONFIGURATION_INVALID',
      detail: 'c.yaml: not read with 32 MiB of memory: it has too many values',
    },
  })
  t.same(limits, ['memory'])
  t.match(await thread.parse(job('a: 1')), { configuration: { raw: { a: 1 } } })
  t.equal(workers.length, 2)
})

t.test('a thread that dies fails the one file that it reads', async (t) => {
  const { thread, workers } = start(t)
  const read = thread.parse(job(dense))
  const next = thread.parse(job('a: 1'))
  await new Promise(setImmediate)
  await workers[0]?.terminate()
  await t.rejects(read, { message: /the thread that reads configuration files ended with \d/ })
  t.match(await next, { configuration: { raw: { a: 1 } } })
})

t.test('stop while files are read ends the thread, and leaves no timer', async (t) => {
  const { thread, clock, alive } = start(t)
  const reads = [thread.parse(job(dense)), thread.parse(job('a: 1'))]
  await new Promise(setImmediate)
  t.equal(alive(), 1)
  const refused = Promise.all(reads.map((read) => t.rejects(read, { code: 'SHUTTING_DOWN' })))
  await thread.stop()
  await refused
  t.equal(alive(), 0)
  t.equal(clock.pending, 0)
  await t.rejects(thread.parse(job('a: 1')), { code: 'SHUTTING_DOWN' })
})

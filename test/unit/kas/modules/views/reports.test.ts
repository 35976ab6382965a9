import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import type { AgentCall } from '../../../../../src/kas/agent-method.ts'
import type { AgentEnvironment } from '../../../../../src/kas/directory/local-directory.ts'
import type { KasHost } from '../../../../../src/kas/module.ts'
import { ReportedFacts, serveReports } from '../../../../../src/kas/modules/views/reports.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { FactsSchema, ReportRequestSchema, ReportResponseSchema } from '../../../../../src/proto/gen/views_pb.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { FakeAgentCall } from '../../../../support/fake-agent-call.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'

type Commit = Parameters<KasHost['agentConfig']['file']>[1]

/** Messages that the test sends one by one. */
class Sent {
  readonly #messages: Uint8Array[] = []
  #wake: (() => void) | undefined
  #hasEnded = false

  facts(facts: { state?: string; objects?: number; kinds?: number; podName?: string; rulesAside?: string[] }): void {
    this.bytes(toBinary(ReportRequestSchema, create(ReportRequestSchema, { facts })))
  }

  bytes(bytes: Uint8Array): void {
    this.#messages.push(bytes)
    this.#wake?.()
  }

  end(): void {
    this.#hasEnded = true
    this.#wake?.()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, void> {
    for (;;) {
      const next = this.#messages.shift()
      if (next) yield next
      else if (this.#hasEnded) return
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
    }
  }
}

function start(t: Test) {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const facts = new ReportedFacts()
  const listeners = new Set<() => void>()
  const world = {
    commit: 'one' as string | undefined,
    views: '{"verdict":"argo"}' as string | undefined | KasError,
    newest: undefined as KasError | undefined,
    reads: 0,
    environments: [] as AgentEnvironment[],
  }
  const agentConfig: Pick<KasHost['agentConfig'], 'newest' | 'onChange' | 'file'> = {
    newest: async () => {
      if (world.newest) throw world.newest
      return world.commit === undefined ? undefined : ({ commit: world.commit as Commit } as never)
    },
    onChange: (_, listener) => {
      const own = () => listener()
      listeners.add(own)
      return () => listeners.delete(own)
    },
    file: async () => {
      world.reads++
      if (world.views instanceof KasError) throw world.views
      return world.views
    },
  }
  const localDirectory = { environmentsOf: () => world.environments }
  const serve = serveReports({ agentConfig, localDirectory, facts, clock, log }, { pollMs: 300_000 })
  const messages = new Sent()
  const call = new FakeAgentCall({ messages })
  const ended = call.servedBy(serve)
  t.teardown(() => call.cut())
  const push = async (change: Partial<typeof world>) => {
    Object.assign(world, change)
    for (const listener of listeners) listener()
    await settle()
    await settle()
  }
  /** blocks and problems that the agent received */
  const told = () =>
    call.sent.map((bytes) => {
      const { what } = fromBinary(ReportResponseSchema, bytes)
      const { block, problem = '' } = what.value ?? {}
      return [block && Buffer.from(block).toString(), problem]
    })
  return { clock, lines, facts, world, messages, call, ended, push, told, listeners }
}

t.test('the block is told at once, and again when it has changed', async (t) => {
  const { push, told, world, call } = start(t)
  await settle()
  t.strictSame(call.sentMetadata, [{}])
  t.strictSame(told(), [['{"verdict":"argo"}', '']])
  await push({ commit: 'two' })
  t.equal(world.reads, 2)
  t.equal(told().length, 1, 'another file was changed')
  await push({})
  t.equal(world.reads, 2, 'and it is not read again at one commit')
  await push({ commit: 'three', views: '{}' })
  await push({ commit: 'four', views: undefined })
  t.strictSame(told().slice(1), [
    ['{}', ''],
    [undefined, ''],
  ])
})

t.test('environments of the directory come with the block, and when they change', async (t) => {
  const { push, call, world } = start(t)
  await settle()
  const told = () =>
    call.sent.map((bytes) => fromBinary(ReportResponseSchema, bytes).what.value?.environments.map(({ key }) => key))
  await push({ environments: [{ key: '1/production', namespace: 'shop', selector: { app: 'web' } }] })
  t.strictSame(told(), [[], ['1/production']])
  t.equal(world.reads, 1, 'the file is not read again')
  await push({ commit: 'two', views: undefined })
  t.strictSame(told().at(-1), [], 'while views are off there are none')
})

t.test('without a file, or a commit, views are off', async (t) => {
  const { told, push } = start(t)
  await push({ commit: undefined })
  const all = told()
  t.strictSame(all.at(-1), [undefined, ''])
})

t.test('a bad file: the agent is told why, and the last good one stays', async (t) => {
  const { push, told, lines } = start(t)
  await settle()
  const bad = (detail: string) => new KasError({ code: 'CONFIGURATION_INVALID', detail })
  await push({ commit: 'two', views: bad('views.yaml: line 1: verdict: no') })
  t.strictSame(told().at(-1), ['{"verdict":"argo"}', 'Config: views.yaml: line 1: verdict: no'])
  t.match(lines.at(-1), { msg: 'What views show cannot be read', commit_id: 'two' })
  await push({ commit: 'three', views: bad('views.yaml: line 2: other') })
  t.strictSame(told().at(-1), ['{"verdict":"argo"}', 'Config: views.yaml: line 2: other'])
  await push({ commit: 'four', views: '{"verdict":"argo"}' })
  t.strictSame(told().at(-1), ['{"verdict":"argo"}', ''], 'and that it is well again')
})

t.test('a repository that fails is asked again; a bad config.yaml changes nothing', async (t) => {
  const { push, told, clock, world } = start(t)
  await settle()
  const failure = new KasError({ code: 'REPOSITORY_FAILED', detail: 'gone' })
  await push({ commit: 'two', views: failure })
  t.equal(told().length, 1)
  world.views = '{}'
  await clock.pass(9999)
  t.equal(told().length, 1)
  await clock.pass(1)
  t.strictSame(told().at(-1), ['{}', ''])
  await push({ newest: new KasError({ code: 'CONFIGURATION_INVALID', detail: 'config.yaml' }) })
  t.equal(told().length, 2)
  await push({ newest: undefined, commit: 'three', views: '{"verdict":"argo"}' })
  t.equal(told().length, 3)
})

t.test('facts stand in kas status while the stream runs', async (t) => {
  const { messages, facts, ended } = start(t)
  await settle()
  messages.facts({ state: 'live', kinds: 30, objects: 900, podName: 'a' })
  await settle()
  t.strictSame(facts.lines(), [
    ['agents that report', 1],
    ['of them live', 1],
    ['of them syncing', 0],
    ['of them stale', 0],
    ['kinds', 30],
    ['objects', 900],
  ])
  messages.facts({ state: '<odd>', kinds: 1, objects: 2 })
  await settle()
  t.strictSame(facts.lines().slice(-3), [
    ['of them stale', 1],
    ['kinds', 1],
    ['objects', 2],
  ])
  messages.end()
  t.equal(await ended, 'OK')
  t.strictSame(facts.lines()[0], ['agents that report', 0])
})

t.test('rules of health that are put aside stand in kas status, so many of them, in print', async (t) => {
  const { messages, facts } = start(t)
  const label = 'agent 42, rule of health put aside'
  const said = async (...rulesAside: string[]) => {
    messages.facts({ state: 'live', rulesAside })
    await settle()
    return facts.lines().slice(6)
  }
  await settle()
  t.strictSame(await said(), [], 'none is put aside')
  t.strictSame(await said('ConfigMap: health[0].rules[1]\u001b[2J\n\u202e'), [
    [label, 'ConfigMap: health[0].rules[1]?[2J??'],
  ])
  const many = await said(...Array.from({ length: 50 }, (_, i) => `${i} ${'x'.repeat(200)}${'y'.repeat(100)}`))
  t.equal(many.length, 10)
  t.ok(many.every(([, text]) => String(text).length === 256))
  t.strictSame(await said(), [], 'the file has changed')
  messages.end()
})

t.test('of many agents twenty such rules have a line, the others a number', async (t) => {
  const facts = new ReportedFacts()
  const rulesAside = Array.from({ length: 10 }, (_, i) => `Pod: health[${i}]`)
  for (let i = 0; i < 3; i++) {
    facts.learn(new FakeAgentCall() as unknown as AgentCall, create(FactsSchema, { state: 'live', rulesAside }))
  }
  const lines = facts.lines().slice(6)
  t.equal(lines.length, 21)
  t.strictSame(lines.at(-1), ['and more such rules', 10])
})

t.test('how a stream ends', async (t) => {
  const retired = start(t)
  await settle()
  retired.call.retire()
  t.equal(await retired.ended, 'OK', 'for the agent to open it on a newer connection')
  t.equal(retired.listeners.size, 0)
  t.equal(retired.call.directoryListeners, 0)
  t.strictSame(retired.clock.waits, [])

  const odd = start(t)
  odd.messages.bytes(Buffer.from([0xff]))
  t.match(await odd.ended, { code: 'INVALID_MESSAGE' })

  const revoked = start(t)
  await settle()
  revoked.call.invalid = new KasError({ code: 'UNAUTHENTICATED' })
  await revoked.clock.pass(300_000)
  t.match(await revoked.ended, { code: 'UNAUTHENTICATED' })

  const told = start(t)
  await settle()
  told.call.invalid = new KasError({ code: 'UNAUTHENTICATED' })
  told.call.directoryChanged()
  t.match(await told.ended, { code: 'UNAUTHENTICATED' })

  const cut = start(t)
  await settle()
  cut.call.cut()
  t.match(await cut.ended, { code: 'CANCELLED' })
  t.strictSame(cut.facts.lines()[0], ['agents that report', 0])
})

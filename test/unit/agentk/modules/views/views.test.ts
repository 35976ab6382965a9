import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { mayImpersonateNobody } from '../../../../../src/agentk/cluster/may-impersonate.ts'
import { RuleReader } from '../../../../../src/agentk/health/custom/rule-sources.ts'
import { WrittenRules } from '../../../../../src/agentk/health/custom/written-rules.ts'
import { followMethod, leadMethod, Views } from '../../../../../src/agentk/modules/views/views.ts'
import { type AgentId, parseAgentId } from '../../../../../src/call/call.ts'
import { kasCaller } from '../../../../../src/call/caller.ts'
import {
  FollowRequestSchema,
  FollowResponseSchema,
  ReportResponseSchema,
} from '../../../../../src/proto/gen/views_pb.ts'
import type { ClientSession, ClientStream } from '../../../../../src/proto/grpc/client-session.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

t.setTimeout(60_000)
const program = new URL('./thread/thread-program.ts', import.meta.url)
const cluster = { server: 'http://127.0.0.1' }
const settings = {
  cluster,
  watched: cluster,
  logLevel: 'silent',
  heapMb: 32,
  mayImpersonate: mayImpersonateNobody,
} as const

/** Messages of kas on the stream of reports. */
class Told {
  readonly #waiting: ((result: IteratorResult<Uint8Array>) => void)[] = []
  readonly #said: Uint8Array[] = []

  say(configuration: { block?: Uint8Array; problem?: string }): void {
    const what = { case: 'configuration' as const, value: configuration }
    const bytes = toBinary(ReportResponseSchema, create(ReportResponseSchema, { what }))
    const waiting = this.#waiting.shift()
    if (waiting) waiting({ value: bytes, done: false })
    else this.#said.push(bytes)
  }

  end(): void {
    for (const waiting of this.#waiting.splice(0)) waiting({ value: undefined, done: true })
  }

  [Symbol.asyncIterator]() {
    return {
      next: (): Promise<IteratorResult<Uint8Array>> => {
        const value = this.#said.shift()
        if (value) return Promise.resolve({ value, done: false })
        return new Promise((resolve) => this.#waiting.push(resolve))
      },
    }
  }
}

const loadRules = async () => new RuleReader([])
const block = (views: object) => Buffer.from(JSON.stringify(views))

/** Starts a pod that leads from now on. */
function lead(t: Test) {
  const clock = new ManualClock()
  const told = new Told()
  const stream = { messages: told, send: async () => undefined, done: Promise.resolve({ trailers: {} }) }
  const session = { draining: false, open: () => stream as unknown as ClientStream } as unknown as ClientSession
  const announced: string[][] = []
  const kas = {
    session: async () => session,
    metadata: () => ({}),
    announce: () => void announced.push([...views.methods.keys()]),
    hasFeature: () => true,
    onFeature: () => () => undefined,
  }
  const election = { identity: 'pod-a_1', leader: 'pod-a_1', holds: () => true }
  const { log } = capturedLog()
  const written = new WrittenRules()
  const views: Views = new Views(
    { kas, election, loadRules, written, metrics: { threadEnded: () => undefined }, log, clock, random: () => 0 },
    { podName: 'pod-a', settings, thread: { program } },
  )
  const ending = new AbortController()
  const led = views.lead({ signal: ending.signal, holds: () => true })
  t.teardown(async () => {
    ending.abort()
    told.end()
    await led
  })
  const look = async (ms = 0) => {
    for (let i = 0; i < 10; i++) await new Promise(setImmediate)
    clock.advance(ms)
    for (let i = 0; i < 10; i++) await new Promise(setImmediate)
  }
  return { views, told, announced, look, written }
}

/** @returns first answer to a view */
async function follow(views: Views) {
  const serve = views.methods.get(followMethod)
  if (!serve) throw new Error('Follow is not served')
  const step = { case: 'open' as const, value: { query: Buffer.from('{"view":"tree"}') } }
  const request = toBinary(FollowRequestSchema, create(FollowRequestSchema, { view: 7, step }))
  const messages = (async function* () {
    yield request
    await new Promise(() => {})
  })()
  const { signal } = new AbortController()
  const reply = await serve({
    agentId: parseAgentId('42') as AgentId,
    method: followMethod,
    metadata: {},
    messages,
    safety: 'safe',
    caller: kasCaller,
    signal,
  })
  const answers = reply.messages[Symbol.asyncIterator]()
  const { value } = (await answers.next()) as IteratorYieldResult<Uint8Array>
  return { bytes: value, request, fault: () => fromBinary(FollowResponseSchema, value).fault }
}

t.test('a pod that leads serves no Follow before it was told what to show: views wait for it', async (t) => {
  const { views, told, announced, look } = lead(t)
  await look(1000)
  t.strictSame([...views.methods.keys()], [leadMethod])
  t.strictSame(announced, [])
  told.say({ block: block({ verdict: 'kstatus' }) })
  await look()
  t.strictSame(announced, [[leadMethod, followMethod]])
  const { bytes, request } = await follow(views)
  t.strictSame(bytes, request, 'by the thread')
})

t.test('views that are off, or whose file cannot be used, are refused in words that are true', async (t) => {
  const { views, told, look } = lead(t)
  told.say({ problem: 'views.yaml: line 1: no' })
  await look()
  t.match((await follow(views)).fault(), { code: 'VIEWS_NOT_SERVED', text: /views.yaml .* cannot be used/ })
  told.say({})
  await look(1000)
  t.match((await follow(views)).fault(), { code: 'VIEWS_NOT_SERVED', text: /there is no views.yaml/ })
  told.say({ block: block({}) })
  await look(1000)
  const { bytes, request } = await follow(views)
  t.strictSame(bytes, request)
  told.say({ problem: 'views.yaml: line 1: no' })
  await look(1000)
  t.strictSame((await follow(views)).bytes, request, 'the last good one stays')
})

t.test('other parts of agentk get the rules of views.yaml, and lose them with the file', async (t) => {
  const { told, look, written } = lead(t)
  await look()
  const health = [{ kind: 'ConfigMap', rules: [{ when: 'true', verdict: 'Degraded' }] }]
  told.say({ block: block({ health }) })
  await look()
  t.strictSame(written.health, health)
  told.say({ problem: 'no YAML' })
  await look()
  t.strictSame(written.health, health, 'the last good ones stay')
  told.say({})
  await look()
  t.strictSame(written.health, [])
})

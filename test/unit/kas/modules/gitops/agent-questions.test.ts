import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { type AgentId, type Call, noMetadata } from '../../../../../src/call/call.ts'
import { keysAtAgent } from '../../../../../src/kas/agent-caller.ts'
import { AgentQuestions, type Asker } from '../../../../../src/kas/modules/gitops/agent-questions.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import {
  DriftResponseSchema,
  ReviewRequestSchema,
  ReviewResponseSchema,
} from '../../../../../src/proto/gen/gitops_drift_pb.ts'
import { PreviewRequestSchema, PreviewResponseSchema } from '../../../../../src/proto/gen/gitops_preview_pb.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const agentId = 42n as AgentId
const subjects = [{ group: '', kind: 'Secret', namespace: 'shop' }]
const asker = (more: Partial<Asker> = {}): Asker => ({
  agentId,
  caller: { key: 'job 5', userKey: 'user 7' },
  impersonation: { username: 'gitlab:user:ada', groups: ['gitlab:user'], uid: '', extra: [] },
  signal: new AbortController().signal,
  ...more,
})

/** Starts questions to an agent that answers with these messages. */
function start(
  given: {
    readonly messages?: readonly Uint8Array[]
    readonly error?: KasError
    readonly serves?: boolean
    readonly awayMs?: number
    readonly hangs?: boolean
  } = {},
) {
  const calls: Call[] = []
  const clock = new ManualClock()
  const questions = new AgentQuestions({
    forward: async (call) => {
      calls.push(call)
      if (given.hangs) {
        await new Promise((_, reject) => call.signal.addEventListener('abort', () => reject(call.signal.reason)))
      }
      return {
        metadata: Promise.resolve(noMetadata),
        messages: (async function* () {
          yield* given.messages ?? []
        })(),
        done: Promise.resolve({ error: given.error, trailers: noMetadata }),
      }
    },
    serves: () => given.serves ?? true,
    away: () => (given.awayMs === undefined ? undefined : { agentId: '42', awayMs: given.awayMs }),
    clock,
  })
  return { questions, calls, clock }
}

const reviewed = (...mayGet: boolean[]) => toBinary(ReviewResponseSchema, create(ReviewResponseSchema, { mayGet }))

t.test('a review names the caller as the directory knows it, and its share by opaque keys', async (t) => {
  const { questions, calls } = start({ messages: [reviewed(true)] })
  t.strictSame(await questions.review(asker(), subjects), [true])
  t.match(calls, [{ agentId, safety: 'safe', method: '/agentk.gitops.v1.Gitops/Review' }])
  const bytes = await Array.fromAsync((calls[0] as Call).messages)
  const { caller, subject } = fromBinary(ReviewRequestSchema, bytes[0] as Uint8Array)
  t.match(subject, subjects)
  t.match(caller?.as, { case: 'user', value: { username: 'gitlab:user:ada', groups: ['gitlab:user'] } })
  t.match(caller, keysAtAgent(agentId, asker().caller))
  t.notMatch(caller?.key, /job/)
})

t.test('callers that act as the agent are named as that', async (t) => {
  const { questions, calls } = start({ messages: [reviewed(true)] })
  await questions.review(asker({ impersonation: undefined }), subjects)
  const bytes = await Array.fromAsync((calls[0] as Call).messages)
  t.equal(fromBinary(ReviewRequestSchema, bytes[0] as Uint8Array).caller?.as.case, 'agent')
})

t.test('nobody is asked where nobody would answer', async (t) => {
  const away = start({ awayMs: 60_000 })
  await t.rejects(away.questions.review(asker(), subjects), { code: 'AGENT_NOT_CONNECTED' })
  const older = start({ serves: false })
  await t.rejects(older.questions.review(asker(), subjects), {
    code: 'GITOPS_NOT_ASKED',
    message: /older than this kas/,
  })
  t.equal(away.calls.length + older.calls.length, 0)
})

t.test('a status does not wait for an agent that hangs', async (t) => {
  const { questions, clock } = start({ hangs: true })
  const asked = questions.review(asker(), subjects)
  clock.advance(5000)
  await t.rejects(asked, { code: 'DEADLINE_EXCEEDED' })
  t.equal(clock.pending, 0)
})

t.test('the agent’s error is that of the question; so are no answer and bytes that are none', async (t) => {
  const refused = new KasError({ code: 'IDENTITY_REFUSED', detail: 'not on the list' })
  await t.rejects(start({ error: refused }).questions.review(asker(), subjects), refused)
  await t.rejects(start().questions.review(asker(), subjects), { code: 'INVALID_MESSAGE' })
  const bytes = Buffer.from([0xff])
  await t.rejects(start({ messages: [bytes] }).questions.review(asker(), subjects), { code: 'INVALID_MESSAGE' })
})

t.test('drift yields each message', async (t) => {
  const message = (name: string) =>
    toBinary(DriftResponseSchema, create(DriftResponseSchema, { what: { case: 'end', value: { problem: name } } }))
  const { questions, clock } = start({ messages: [message('a'), message('b')] })
  const found = await Array.fromAsync(questions.drift(asker(), { source: '42-7', scan: false }))
  t.match(found, [{ what: { value: { problem: 'a' } } }, { what: { value: { problem: 'b' } } }])
  t.equal(clock.pending, 0)
})

t.test('a message that would be far larger as objects is refused before it is decoded', async (t) => {
  const drift = (bytes: Uint8Array) =>
    Array.fromAsync(start({ messages: [bytes] }).questions.drift(asker(), { source: '42-7', scan: false }))
  const value = { object: { key: { name: 'a' } }, field: Array(20).fill({ path: '.a', before: 'x'.repeat(1024) }) }
  const honest = toBinary(DriftResponseSchema, create(DriftResponseSchema, { what: { case: 'object', value } }))
  t.match(await drift(honest), [{ what: { value: { object: { key: { name: 'a' } } } } }])
  /** A message with a message in it, of this many empty ones. */
  const bomb = (count: number) => {
    const inner = Buffer.alloc(count * 2)
    for (let i = 0; i < count; i++) inner[i * 2] = (2 << 3) | 2 // an empty `field`
    return Buffer.concat([lengthDelimited(1, inner.length), inner])
  }
  await t.rejects(drift(bomb(2000)), { code: 'INVALID_MESSAGE', message: /more than 2000 fields/ })
  await t.rejects(
    drift(Buffer.concat(Array(100).fill(bomb(20)))),
    { code: 'INVALID_MESSAGE' },
    'in parts, which are one',
  )
  await t.rejects(drift(Buffer.alloc(1024 ** 2 + 1)), { code: 'INVALID_MESSAGE', message: /1048576 bytes/ })
  await t.rejects(drift(Buffer.from([0x0a, 0x05, 0x12])), { code: 'INVALID_MESSAGE' }, 'cut short')
})

/** Returns the tag and the length of a field. */
function lengthDelimited(field: number, length: number): Buffer {
  const bytes = [(field << 3) | 2]
  for (let rest = length; ; rest >>>= 7) {
    bytes.push(rest >= 128 ? (rest & 127) | 128 : rest)
    if (rest < 128) return Buffer.from(bytes)
  }
}

t.test('a preview sends its begin, files in parts and their end, and is not repeated', async (t) => {
  const answer = create(PreviewResponseSchema, { what: { case: 'end', value: { objects: 3 } } })
  const { questions, calls } = start({ messages: [toBinary(PreviewResponseSchema, answer)] })
  const files = [
    { path: 'empty.yaml', data: new Uint8Array() },
    { path: 'large.yaml', data: Buffer.alloc(600 * 1024, 'x') },
  ]
  const asked = { source: '42-7', auditId: 'id', values: true, files }
  const received = await Array.fromAsync(questions.preview(asker(), asked))
  t.match(received, [{ what: { case: 'end', value: { objects: 3 } } }])
  const [call] = calls
  t.equal(call?.method, '/agentk.gitops.v1.Gitops/Preview')
  t.equal(call?.safety, 'unsafe')
  const sent = await Array.fromAsync(call?.messages ?? [], (bytes) => fromBinary(PreviewRequestSchema, bytes).what)
  const { key, userKey } = keysAtAgent(agentId, asker().caller)
  t.match(sent[0], { case: 'begin', value: { source: '42-7', auditId: 'id', values: true, caller: { key, userKey } } })
  t.strictSame(
    sent
      .slice(1, -1)
      .map(({ value }) => [value && 'path' in value && value.path, value && 'data' in value && value.data.length]),
    [
      ['empty.yaml', 0],
      ['large.yaml', 256 * 1024],
      ['large.yaml', 256 * 1024],
      ['large.yaml', 88 * 1024],
    ],
  )
  t.match(sent.at(-1), { case: 'end', value: { files: 2 } })
})

t.test('a preview is not sent to an agentk that does not announce it', async (t) => {
  const { questions, calls } = start({ serves: false })
  t.throws(() => questions.checkPreview(agentId), { code: 'GITOPS_NOT_ASKED', message: /or update it/ })
  const asked = { source: '42-7', auditId: 'id', values: false, files: [] }
  await t.rejects(Array.fromAsync(questions.preview(asker(), asked)), { code: 'GITOPS_NOT_ASKED' })
  t.throws(() => start({ awayMs: 60_000 }).questions.checkPreview(agentId), { code: 'AGENT_NOT_CONNECTED' })
  t.equal(calls.length, 0)
})

t.test('a preview has a time, and bounds of its messages', async (t) => {
  const { questions, clock } = start({ hangs: true })
  const asked = { source: '42-7', auditId: 'id', values: false, files: [] }
  const answer = Array.fromAsync(questions.preview(asker(), asked))
  clock.advance(75_000)
  await t.rejects(answer, { code: 'DEADLINE_EXCEEDED' })
  const large = start({ messages: [new Uint8Array(1024 * 1024 + 1)] })
  await t.rejects(Array.fromAsync(large.questions.preview(asker(), asked)), { code: 'INVALID_MESSAGE' })
})

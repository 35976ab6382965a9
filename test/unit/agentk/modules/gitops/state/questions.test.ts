import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { FollowedDrift } from '../../../../../../src/agentk/modules/gitops/drift/follow-drift.ts'
import type { KnownFinding } from '../../../../../../src/agentk/modules/gitops/drift/known-findings.ts'
import type { Finding } from '../../../../../../src/agentk/modules/gitops/finding.ts'
import { questionMethods } from '../../../../../../src/agentk/modules/gitops/state/questions.ts'
import type { AgentId, Call } from '../../../../../../src/call/call.ts'
import { kasCaller } from '../../../../../../src/call/caller.ts'
import { KnownMessages } from '../../../../../../src/call/known-messages.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'
import type { CallerSchema } from '../../../../../../src/proto/gen/agentk_caller_pb.ts'
import {
  DriftRequestSchema,
  DriftResponseSchema,
  ReviewRequestSchema,
  ReviewResponseSchema,
} from '../../../../../../src/proto/gen/gitops_drift_pb.ts'
import { Gitops } from '../../../../../../src/proto/gen/gitops_questions_pb.ts'
import { methodPath } from '../../../../../../src/proto/unary.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const finding = (kind: string, namespace: string, name: string): Finding => ({
  key: { group: '', kind, namespace, name },
  version: 'v1',
  file: 'a.yaml',
  line: 1,
  kind: 'drifted',
  isDeleted: false,
  differences: [],
  more: 0,
  by: undefined,
  since: 1000,
  reason: '',
  holdUntil: undefined,
  resourceVersion: '1',
})
const value = (key: string, secretKey = '') => ({
  path: `.data.${key}`,
  kind: 'changed' as const,
  before: '"git"',
  after: '"live"',
  by: { manager: 'kubectl-edit', operation: 'Update', subresource: '', time: '2026-01-01T00:00:00Z' },
  ...(secretKey && { secretKey }),
})
const values: Awaited<ReturnType<FollowedDrift['values']>> = {
  kind: 'drifted',
  differences: { listed: [value('a')], more: 2 },
  ignored: { listed: [{ ...value('b'), by: 'unknown', rule: 'ConfigMap .data.b' }], more: 0 },
}

interface Asked {
  readonly caller?: MessageInitShape<typeof CallerSchema>
  readonly source?: string
  readonly scan?: boolean
}

/** Starts the methods for one source. The caller may get objects in namespace `shop`. */
function start(findings: readonly Finding[], given: Partial<FollowedDrift> = {}) {
  const decision = { kind: 'left', because: { kind: 'mode' } } as const
  const known = new Map(findings.map((one): [string, KnownFinding] => [keyText(one.key), { finding: one, decision }]))
  const drift = { known, mode: 'report', objects: 12, checkAll: async () => 11, values: async () => values, ...given }
  const clock = new ManualClock(5000)
  const methods = questionMethods({
    driftOf: (id) => (id === '42-7' ? (drift as unknown as FollowedDrift) : undefined),
    rights: { mayGet: async (_, subjects) => subjects.map(({ namespace }) => namespace === 'shop') },
    clock,
  })
  const call = (method: string, request: Uint8Array, signal = new AbortController().signal) =>
    methods.get(method)?.({
      agentId: 42n as AgentId,
      method,
      metadata: {},
      messages: new KnownMessages([request]),
      safety: 'safe',
      caller: kasCaller,
      signal,
    } satisfies Call) ?? Promise.reject(new Error('it is not served'))
  const ask = async (request: Asked, signal?: AbortSignal) => {
    const caller: MessageInitShape<typeof CallerSchema> = { as: { case: 'agent', value: {} }, key: 'k' }
    const bytes = toBinary(
      DriftRequestSchema,
      create(DriftRequestSchema, { caller, source: '42-7', ...request } as object),
    )
    const { messages, done } = await call(methodPath(Gitops.method.drift), bytes, signal)
    const whats = []
    for await (const message of messages) whats.push(fromBinary(DriftResponseSchema, message as Uint8Array).what)
    return { whats, error: (await done).error }
  }
  return { ask, call, clock }
}

t.test('what differs is sent with its values, and then how far it was compared', async (t) => {
  const { ask } = start([finding('ConfigMap', 'shop', 'settings')])
  const { whats, error } = await ask({})
  t.equal(error, undefined)
  const [object, end] = whats
  t.match(object, {
    case: 'object',
    value: {
      object: {
        key: { kind: 'ConfigMap', namespace: 'shop', name: 'settings' },
        kind: 'drifted',
        left: 'mode',
        path: [],
      },
      field: [{ path: '.data.a', before: '"git"', after: '"live"', manager: 'kubectl-edit', operation: 'Update' }],
      more: 2,
      ignored: [{ path: '.data.b', manager: '', rule: 'ConfigMap .data.b' }],
    },
  })
  const facts = { objects: 12, compared: 0, withheld: 0, cut: 0, problem: '', atMs: 5000n, mode: 'report' }
  t.match(end, { case: 'end', value: facts })
})

t.test('of objects that the caller may not get it sends their number alone', async (t) => {
  const compared: string[] = []
  const { ask } = start([finding('ConfigMap', 'other', 'secret-plan'), finding('ConfigMap', 'shop', 'settings')], {
    values: async (text) => {
      compared.push(text)
      return values
    },
  })
  const { whats } = await ask({})
  t.match(whats.at(-1), { value: { withheld: 1 } })
  t.notMatch(
    JSON.stringify(whats, (_, one) => (typeof one === 'bigint' ? String(one) : one)),
    'secret-plan',
  )
  t.equal(compared.length, 1, 'and nobody compares them for that caller')
})

t.test('what is in order by now, or goes, is not sent; what cannot be compared says why', async (t) => {
  const of = async (found: Awaited<ReturnType<FollowedDrift['values']>>) =>
    (await start([finding('ConfigMap', 'shop', 'settings')], { values: async () => found }).ask({})).whats
  const none = { listed: [], more: 0 }
  t.equal((await of({ kind: 'inOrder', differences: none, ignored: none })).length, 1)
  t.equal((await of({ kind: 'beingDeleted' })).length, 1)
  t.match(await of({ kind: 'notCompared', reason: 'denied' }), [
    { value: { object: { text: 'denied' }, field: [] } },
    {},
  ])
})

t.test('a scan compares all objects first', async (t) => {
  const { ask } = start([])
  t.match((await ask({ scan: true })).whats, [{ value: { objects: 12, compared: 11 } }])
  t.match((await ask({ scan: false })).whats, [{ value: { compared: 0 } }])
})

t.test('more than 100 objects are counted', async (t) => {
  const { ask } = start(Array.from({ length: 103 }, (_, i) => finding('ConfigMap', 'shop', `c${i}`)))
  const { whats } = await ask({})
  t.equal(whats.length, 101)
  t.match(whats.at(-1), { value: { cut: 3 } })
})

t.test('a source that is not followed says so: nothing is in order then', async (t) => {
  t.match((await start([]).ask({ source: '42-8' })).whats, [{ value: { problem: /does not follow/, objects: 0 } }])
})

t.test('a question that takes too long ends, and questions without end leave room for others', async (t) => {
  const held = Promise.withResolvers<number>()
  const waits = { checkAll: (signal: AbortSignal) => Promise.race([held.promise, aborted(signal)]) }
  const { ask, clock } = start([], waits)
  const key = (name: string) => ({ scan: true, caller: { as: { case: 'agent' as const, value: {} }, key: name } })
  const greedy = Array.from({ length: 4 }, () => ask(key('greedy')))
  t.match((await ask(key('greedy'))).error, { code: 'TOO_MANY_STREAMS' })
  const other = ask(key('other'))
  t.match((await Promise.race(greedy)).error, { code: 'TOO_MANY_STREAMS' }, 'the greedy caller makes room')
  clock.advance(120_000)
  t.match((await other).error, { code: 'DEADLINE_EXCEEDED' })
  await Promise.all(greedy)
})

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
}

t.test('a review answers in the order of its subjects', async (t) => {
  const { call } = start([])
  const review = async (
    subject: { kind: string; namespace: string }[],
    caller: object = { as: { case: 'agent', value: {} } },
  ) => {
    const bytes = toBinary(ReviewRequestSchema, create(ReviewRequestSchema, { caller, subject }))
    const { messages, done } = await call(methodPath(Gitops.method.review), bytes)
    const answers = []
    for await (const message of messages) answers.push(fromBinary(ReviewResponseSchema, message as Uint8Array).mayGet)
    return { answers, error: (await done).error }
  }
  const subjects = ['other', 'shop'].map((namespace) => ({ kind: 'Secret', namespace }))
  t.strictSame((await review(subjects)).answers, [[false, true]])
  t.match((await review(Array(501).fill(subjects[0]))).error, { code: 'INVALID_MESSAGE' })
  t.match((await review(subjects, {})).error, { code: 'INVALID_MESSAGE', message: /without a caller/ })
})

t.test('bad input: a question without a caller, or without the key of its share', async (t) => {
  const { ask } = start([])
  t.match((await ask({ caller: { key: 'k' } })).error, { code: 'INVALID_MESSAGE' })
  t.match((await ask({ caller: { as: { case: 'agent', value: {} } } })).error, { code: 'INVALID_MESSAGE' })
})

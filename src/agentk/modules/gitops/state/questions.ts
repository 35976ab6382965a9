import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import type { ObjectKey } from '../../../../kubernetes/key.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Deadline } from '../../../../lib/deadline.ts'
import { KasError } from '../../../../lib/errors.ts'
import { SharedRoom } from '../../../../lib/shared-room.ts'
import {
  type ComparedObjectSchema,
  type DriftEndSchema,
  type DriftRequest,
  DriftRequestSchema,
  DriftResponseSchema,
  type FieldSchema,
  type ReviewRequest,
  ReviewRequestSchema,
  ReviewResponseSchema,
} from '../../../../proto/gen/gitops_drift_pb.ts'
import { Gitops } from '../../../../proto/gen/gitops_questions_pb.ts'
import { maxListed } from '../../../../proto/gitops/limits.ts'
import { methodPath, readOne } from '../../../../proto/unary.ts'
import { callerOf, roomUserOf } from '../../../caller.ts'
import { replyOf } from '../../../tunnels/reply-of.ts'
import type { Serve } from '../../../tunnels/serve.ts'
import type { Differences } from '../drift/compare-answers.ts'
import type { FollowedDrift } from '../drift/follow-drift.ts'
import type { KnownFinding } from '../drift/known-findings.ts'
import type { Difference } from '../drift/shown-difference.ts'
import { driftedObject } from './drift-state.ts'
import type { ObjectRights, Subject } from './object-rights.ts'

/** Limit of subjects of one review. */
const maxSubjects = 500
/** Limit of questions for drift at once (`drift_questions`): each compares up to all objects of a source. */
const maxQuestions = 4
/** Limit of one question: 10,000 objects at 150 calls a second take 67 s. ms */
const timeoutMs = 120_000
/** Paths of one object beside its fields: none. */
const noPaths = 0

export interface QuestionsComponents {
  /** returns undefined for a source that is not followed */
  readonly driftOf: (source: string) => FollowedDrift | undefined
  readonly rights: Pick<ObjectRights, 'mayGet'>
  /** `now`: ms since 1970 */
  readonly clock: Clock
}

/** Returns the methods by which kas asks about sources, for callers whose rights decide what they see. */
export function questionMethods(components: QuestionsComponents): ReadonlyMap<string, Serve> {
  const room = new SharedRoom({ name: 'drift_questions', limit: maxQuestions })
  const drift: Serve = async ({ messages, signal }) =>
    replyOf(driftAnswer(components, room, await readOne(DriftRequestSchema, messages), signal))
  const review: Serve = async ({ messages, signal }) =>
    replyOf(reviewAnswer(components, await readOne(ReviewRequestSchema, messages), signal))
  return new Map([
    [methodPath(Gitops.method.drift), drift],
    [methodPath(Gitops.method.review), review],
  ])
}

async function* reviewAnswer(
  { rights }: QuestionsComponents,
  { caller, subject: subjects }: ReviewRequest,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  if (subjects.length > maxSubjects) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: `${subjects.length} subjects, allowed: ${maxSubjects}` })
  }
  const mayGet = await rights.mayGet(callerOf(caller, 'a review'), subjects, signal)
  yield toBinary(ReviewResponseSchema, create(ReviewResponseSchema, { mayGet }))
}

/** Answers within the time limit, in the caller's part of the room. @throws KasError TOO_MANY_STREAMS, DEADLINE_EXCEEDED */
async function* driftAnswer(
  components: QuestionsComponents,
  room: SharedRoom,
  request: DriftRequest,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const reason = () => new KasError({ code: 'DEADLINE_EXCEEDED' })
  const deadline = new Deadline({ ms: timeoutMs, clock: components.clock, signals: [signal], reason })
  const use = { what: 'questions for drift at this agent', end: (ended: KasError) => deadline.abort(ended) }
  const hold = room.enter(roomUserOf(request.caller, 'a question'), use)
  try {
    yield* differingObjects(components, request, deadline.signal)
  } finally {
    hold.leave()
    deadline.end()
  }
}

/** Compares objects that are known to differ, as far as the caller may get them, and yields those that do. */
async function* differingObjects(
  { driftOf, rights, clock }: QuestionsComponents,
  { caller: sent, source, scan }: DriftRequest,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const caller = callerOf(sent, 'a question')
  const drift = driftOf(source)
  if (!drift) return yield endOf({ problem: 'agentk does not follow this source now' })
  const compared = scan ? await drift.checkAll(signal) : 0
  const all = [...drift.known]
  const subjects = new Map(all.map(([, { finding }]) => [subjectText(finding.key), finding.key]))
  const asked = [...subjects].slice(0, maxSubjects)
  const answers = await rights.mayGet(
    caller,
    asked.map(([, key]) => subjectOf(key)),
    signal,
  )
  const allowed = new Set(asked.flatMap(([text], i) => (answers[i] ? [text] : [])))
  const shown = all.filter(([, { finding }]) => allowed.has(subjectText(finding.key)))
  for (const [text, known] of shown.slice(0, maxListed)) {
    const object = await comparedObject(drift, text, known, signal)
    if (object) yield response({ case: 'object', value: object })
  }
  yield endOf({
    objects: drift.objects,
    compared,
    withheld: all.length - shown.length,
    cut: Math.max(0, shown.length - maxListed),
    atMs: BigInt(clock.now()),
    mode: drift.mode,
  })
}

/** @returns undefined: it is in order by now, or is being deleted */
async function comparedObject(
  drift: FollowedDrift,
  text: string,
  known: KnownFinding,
  signal: AbortSignal,
): Promise<MessageInitShape<typeof ComparedObjectSchema> | undefined> {
  const values = await drift.values(text, signal)
  if (values.kind === 'inOrder' || values.kind === 'beingDeleted') return undefined
  const object = driftedObject(known, noPaths)
  if (values.kind === 'notCompared') return { object: { ...object, text: values.reason } }
  const { differences, ignored } = values
  return {
    object,
    field: fieldsOf(differences),
    more: differences.more,
    ignored: fieldsOf(ignored),
    moreIgnored: ignored.more,
  }
}

function fieldsOf({ listed }: Differences): MessageInitShape<typeof FieldSchema>[] {
  return listed.map(fieldOf)
}

function fieldOf({ path, kind, before, after, by, secretKey = '', rule = '' }: Difference) {
  const { manager, operation, time } = by === 'unknown' ? { manager: '', operation: '', time: '' } : by
  const values = { ...(before !== undefined && { before }), ...(after !== undefined && { after }) }
  return { path, kind, ...values, manager, operation, time, secretKey, rule }
}

function subjectOf({ group, kind, namespace }: ObjectKey): Subject {
  return { group, kind, namespace }
}

function subjectText(key: ObjectKey): string {
  return JSON.stringify(subjectOf(key))
}

function endOf(value: MessageInitShape<typeof DriftEndSchema>): Uint8Array {
  return response({ case: 'end', value })
}

function response(what: NonNullable<MessageInitShape<typeof DriftResponseSchema>['what']>): Uint8Array {
  return toBinary(DriftResponseSchema, create(DriftResponseSchema, { what }))
}

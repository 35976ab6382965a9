import { KasError } from '../../../../lib/errors.ts'
import { canBeDrawn } from '../../../../proto/graph-arcs.ts'
import {
  type GraphArc,
  type GraphVertex,
  graphArcTypes,
  type Update,
  type ViewState,
  viewsBounds,
} from '../../../../proto/views-json.ts'

/** Messages of GitLab's `<prefix>graph` (doc/reference/graph.md), and their parts. */

/** Characters of one message; the client accepts 4 MiB. */
const maxMessageLength = 64 * 1024
/** warnings of a message */
const maxWarnings = 100
/** characters of a warning */
const maxWarning = 512

/** An agent's update of a graph. Its keys have checked types; vertices and arcs are those of `proto/views-json.ts`. */
export interface GraphUpdate {
  readonly seq: number
  readonly darc: readonly GraphArc[]
  readonly dvx: readonly number[]
  readonly svx: readonly GraphVertex[]
  readonly sarc: readonly GraphArc[]
  readonly hasMore: boolean
  /** warnings of the state, if the update has one; undefined: as before */
  readonly warnings: readonly Warning[] | undefined
  readonly isCut: boolean
}

export interface Warning {
  readonly type: string
  readonly text: string
}

/** Warning in a graph that is too large. */
export const cutWarning: Warning = {
  type: 'limit',
  text: `there are more than ${viewsBounds.maxVertices} objects or ${viewsBounds.maxArcs} arcs, or than this user may still have: the first by name are shown`,
}

type Fields = Readonly<Record<string, unknown>>

/** @param json - one object (`isOneObject`). @throws KasError INVALID_MESSAGE */
export function readGraphUpdate(json: Uint8Array): GraphUpdate {
  const { seq, state, more, cut, ...of } = JSON.parse(new TextDecoder().decode(json)) as Fields
  if (!Number.isSafeInteger(seq)) throw invalid('seq')
  return {
    seq: seq as number,
    darc: all(of, 'darc', isArc),
    dvx: all(of, 'dvx', isId),
    svx: all(of, 'svx', isVertex),
    sarc: all(of, 'sarc', isArc),
    hasMore: more === true,
    warnings: state === undefined ? undefined : warningsOf(state),
    isCut: cut === true,
  }
}

/** Builds messages as JSON; long ones are split. */
export function* graphMessages(actions: Iterable<string>, warnings: readonly Warning[]): Generator<string, void> {
  let [parts, length] = [[] as string[], 0]
  let unsent = warnings
  for (const action of actions) {
    parts.push(action)
    length += action.length
    if (length < maxMessageLength) continue
    yield message(parts, unsent)
    ;[parts, length, unsent] = [[], 0, []]
  }
  if (parts.length > 0 || unsent.length > 0) yield message(parts, unsent)
}

/** The first graph needs a message, even an empty one. */
export const emptyMessage = message([], [])

/** Builds the last message. @param code - close code of the WebSocket */
export function graphErrorMessage(code: number, reason: string): string {
  return JSON.stringify({ error: { code, code_string: closeNames[code] ?? '', reason } })
}

/** Names of close codes in GitLab's clients (coder/websocket). */
const closeNames: Readonly<Record<number, string>> = {
  1001: 'StatusGoingAway',
  1003: 'StatusUnsupportedData',
  1008: 'StatusPolicyViolation',
  1011: 'StatusInternalError',
  1013: 'StatusTryAgainLater',
}

/** @returns JSON of a vertex */
export function vertexJson([, g, v, r, ns, n]: GraphVertex): string {
  return JSON.stringify({ ...(g === '' ? {} : { g }), v, r, ...(ns === '' ? {} : { ns }), n })
}

function message(actions: readonly string[], warnings: readonly Warning[]): string {
  const texts = warnings.map(({ type, text }) => JSON.stringify({ t: type, m: text }))
  return `{"actions":[${actions.join(',')}]${texts.length > 0 ? `,"warnings":[${texts.join(',')}]` : ''}}`
}

function all<T>(of: Fields, name: keyof Update, isOne: (value: unknown) => value is T): readonly T[] {
  const { [name]: values = [] } = of
  if (Array.isArray(values) && values.every(isOne)) return values
  throw invalid(name)
}

function isId(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < viewsBounds.maxVertexIds
}

function isVertex(value: unknown): value is GraphVertex {
  if (!Array.isArray(value) || value.length !== 6 || !isId(value[0])) return false
  const texts = value.slice(1)
  return texts.every((text) => typeof text === 'string') && canBeDrawn(texts)
}

function isArc(value: unknown): value is GraphArc {
  if (!Array.isArray(value) || value.length < 3 || value.length > 4) return false
  const [from, to, type, isAbsent = 0] = value
  return isId(from) && isId(to) && graphArcTypes.includes(type) && (isAbsent === 0 || isAbsent === 1)
}

/** Returns the warnings for a client in the state of a view. */
function warningsOf(state: unknown): readonly Warning[] {
  const { is, why, notFollowed, refused, problems } = (state ?? {}) as Partial<Record<keyof ViewState, unknown>>
  const found: Warning[] = []
  const add = (type: string, text: string) => {
    if (found.length < maxWarnings) found.push({ type, text: text.slice(0, maxWarning) })
  }
  if (is === 'stale') add('stale', typeof why === 'string' && why !== '' ? why : 'what is shown may be old')
  for (const problem of texts(problems)) add('configuration', problem)
  for (const one of Array.isArray(refused) ? refused : []) {
    const [plural = '', namespace = ''] = texts(one)
    const what = plural === '' ? 'nothing can be listed' : `${plural} cannot be listed`
    add('forbidden', namespace === '' ? what : `${what} in ${namespace}`)
  }
  for (const one of texts(notFollowed)) add('unfollowed', `${one} is not followed by the agent`)
  return found
}

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string') : []

function invalid(name: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: `an update of a graph has an odd "${name}"` })
}

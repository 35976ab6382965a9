import { type AgentId, type Metadata, type Outcome, parseAgentId } from '../../call/call.ts'
import type { Caller } from '../../call/caller.ts'
import { type ErrorSpec, errorCodes, KasError } from '../../lib/errors.ts'

/**
 * Metadata of a call that one replica hands over to another (doc/internals/routing.md "Another replica holds the agent").
 *
 * The call goes on a lane. The holder answers with the interim header `kas-tunnel: ready`, or ends the call with the
 * trailer `kas-tunnel: none`. It answers `refused` if the caller may have no more tunnels. After `ready` the agent's
 * reply follows unchanged: the entry sends `go`, then the messages of the call.
 *
 * An eager call is one that two holders may get: its messages follow the head at once, without `go`. A reply that comes
 * soon means `ready` by itself. A reply without headers has the trailer `kas-tunnel: ready`.
 */
export const tunnelKey = 'kas-tunnel'
/**
 * First message of a hand-over that is not eager: the entry uses the tunnel. It distinguishes a call whose caller sends
 * nothing at first from an abandoned one.
 */
export const go = new Uint8Array(0)
const ownPrefix = 'kas-'
const agentIdKey = 'kas-agent-id'
const waitKey = 'kas-wait'
const eagerKey = 'kas-eager'
const callerKey = 'kas-caller'
const callerUserKey = 'kas-caller-user'
const watchKey = 'kas-watch'
const logKey = 'kas-log'
const errorKey = 'kas-error-bin'
/** Keys for this hop alone: neither agents nor GitLab receive them. */
export const handOverKeys: readonly string[] = [
  tunnelKey,
  agentIdKey,
  waitKey,
  eagerKey,
  callerKey,
  callerUserKey,
  watchKey,
  logKey,
]
/** Larger errors are not sent: the entry has the gRPC status only. bytes, as JSON */
const maxErrorBytes = 2048
/** Form of a caller's key. */
const callerKeyForm = /^[\w-]{1,64}$/

export interface HandOver {
  readonly agentId: AgentId
  /** how long the holder may wait for a tunnel; 0: it answers at once. ms */
  readonly waitMs: number
  /** the messages follow at once, without `go` */
  readonly eager: boolean
  readonly caller: Caller
  readonly isWatch: boolean
  readonly isLog: boolean
}

/** Returns the caller's metadata with the keys of the hand-over. */
export function writeHandOver(handOver: HandOver, metadata: Metadata): Metadata {
  const { agentId, waitMs, eager, caller, isWatch, isLog } = handOver
  const written: Record<string, readonly string[]> = {
    [agentIdKey]: [String(agentId)],
    [waitKey]: [String(Math.ceil(waitMs))],
    [callerKey]: [caller.key],
  }
  if (caller.userKey !== undefined) written[callerUserKey] = [caller.userKey]
  if (eager) written[eagerKey] = ['1']
  if (isWatch) written[watchKey] = ['1']
  if (isLog) written[logKey] = ['1']
  return Object.assign(written, withoutOwnKeys(metadata))
}

/** @throws KasError INVALID_MESSAGE */
export function readHandOver(metadata: Metadata): HandOver {
  const id = metadata[agentIdKey] ?? []
  const wait = metadata[waitKey] ?? []
  const agentId = id.length === 1 ? parseAgentId(id[0] as string) : undefined
  if (agentId === undefined) throw invalid(agentIdKey)
  if (wait.length !== 1 || !/^\d{1,9}$/.test(wait[0] as string)) throw invalid(waitKey)
  return {
    agentId,
    waitMs: Number(wait[0]),
    eager: metadata[eagerKey] !== undefined,
    caller: callerOf(metadata),
    isWatch: metadata[watchKey] !== undefined,
    isLog: metadata[logKey] !== undefined,
  }
}

/** @throws KasError INVALID_MESSAGE */
function callerOf({ [callerKey]: keys = [], [callerUserKey]: userKeys }: Metadata): Caller {
  const key = keyOf(callerKey, keys)
  return userKeys ? { key, userKey: keyOf(callerUserKey, userKeys) } : { key }
}

function keyOf(name: string, [key = '', ...more]: readonly string[]): string {
  if (more.length > 0 || !callerKeyForm.test(key)) throw invalid(name)
  return key
}

/** Removes the keys of replicas: agents and callers cannot speak for a replica. */
export function withoutOwnKeys(metadata: Metadata): Metadata {
  let isOwn = false
  for (const key in metadata) isOwn ||= key.startsWith(ownPrefix)
  if (!isOwn) return metadata
  const rest: Record<string, readonly string[]> = Object.create(null)
  for (const key in metadata) if (!key.startsWith(ownPrefix)) rest[key] = metadata[key] as readonly string[]
  return rest
}

/** Encodes an error of kas itself, so that the entry can restore it. */
export function writeError({ spec }: KasError): Metadata {
  if (spec.code === 'STATUS' || spec.code === 'INTERNAL') return {} // the gRPC status is enough
  const json = Buffer.from(JSON.stringify(spec))
  return json.length > maxErrorBytes ? {} : { [errorKey]: [json.toString('base64')] }
}

/** Returns the outcome of a call that was handed over, with the holder's error if it sent one. */
export function readOutcome({ error, trailers }: Outcome): Outcome {
  const own = trailers[errorKey]?.[0]
  return { error: (error && own && readError(own)) || error, trailers: withoutOwnKeys(trailers) }
}

/** @returns undefined: the error is of another version, and the gRPC status must do */
function readError(base64: string): KasError | undefined {
  try {
    const spec = JSON.parse(Buffer.from(base64, 'base64').toString()) as ErrorSpec
    return errorCodes.includes(spec.code) ? new KasError(spec) : undefined
  } catch {
    return undefined
  }
}

function invalid(key: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: `metadata ${key} is missing or malformed` })
}

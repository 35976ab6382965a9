import { collectionPath } from '../../../../kubernetes/path.ts'
import { KasError } from '../../../../lib/errors.ts'

/** Encodes and decodes messages of the watch API, JSON in text frames (doc/reference/tunnel-protocol.md 6.8). */

/** Request to the API server for a watch. */
export interface WatchRequest {
  /** decoded */
  readonly path: string
  /** decoded, sorted by name */
  readonly query: [name: string, values: string[]][]
}

export type WatchMessage =
  | { readonly type: 'watch'; readonly watchId: string; readonly params: Readonly<Record<string, unknown>> }
  | { readonly type: 'unwatch'; readonly watchId: string }

/** Characters of the id that a client gives a watch. */
const maxIdCharacters = 256
/** Parameters of one watch. */
const maxParams = 32

/** Matches names of API groups, versions, resources and namespaces, which cannot leave their segment of the path. */
const segment = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/
const paramName = /^[a-z][a-z0-9_]{0,62}$/
/** Parameters that are part of the path. */
const inPath = new Set(['group', 'version', 'resource', 'namespace'])

/**
 * Parses a message.
 *
 * @throws KasError INVALID_MESSAGE: it names no watch that could be answered
 */
export function readWatchMessage(text: string): WatchMessage {
  const message = parse(text)
  const { type, watch_id: watchId, watch_params: params = {} } = message
  if (typeof watchId !== 'string' || watchId === '' || watchId.length > maxIdCharacters) {
    throw invalid(`watch_id: a text of 1 to ${maxIdCharacters} characters is needed`)
  }
  if (type === 'unwatch') return { type, watchId }
  if (type !== 'watch') throw invalid('type: one of watch, unwatch is needed')
  if (!isObject(params)) throw invalid('watch_params: an object is needed')
  return { type, watchId, params }
}

/**
 * Creates the request for a watch. Unknown parameters go to the API server in its spelling, because dropping a selector
 * would show more than was asked for.
 *
 * @throws KasError BAD_REQUEST
 */
export function watchRequest(params: Readonly<Record<string, unknown>>): WatchRequest {
  const names = Object.keys(params)
  if (names.length > maxParams) throw bad(`more than ${maxParams} watch_params`)
  const group = segmentOf(params, 'group') ?? ''
  const version = segmentOf(params, 'version')
  const resource = segmentOf(params, 'resource')
  const namespace = segmentOf(params, 'namespace')
  if (version === undefined || resource === undefined) throw bad('watch_params need version and resource')
  const query = names.flatMap((name) => (inPath.has(name) ? [] : parameter(name, params[name])))
  query.push(['watch', ['true']])
  query.sort(([a], [b]) => (a < b ? -1 : 1))
  // the same encoded: these names have no other characters
  return { path: collectionPath({ group, version, plural: resource }, namespace), query }
}

/** Encodes an event. @param event - JSON of the API server */
export function eventMessage(watchId: string, event: string): string {
  return `{"type":"watch","watchId":${JSON.stringify(watchId)},"watchEvent":${event}}`
}

/**
 * Encodes the end of a watch. The reason is in both places where GitLab's pages read it.
 *
 * @param status - Kubernetes' Status as JSON
 */
export function errorMessage(watchId: string, message: string, status: string): string {
  const error = `{"message":${JSON.stringify(message)},"object":${status}}`
  return `{"type":"error","watchId":${JSON.stringify(watchId)},"error":${error}}`
}

function segmentOf(params: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const value = params[name]
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value === 'string' && segment.test(value)) return value
  throw bad(`watch_params.${name} is no name of Kubernetes`)
}

/** Converts a parameter: `field_selector` becomes `fieldSelector`. */
function parameter(name: string, value: unknown): [string, string[]][] {
  if (value === undefined || value === null || value === '') return []
  const spelled = name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
  const isKnown = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  if (!isKnown || !paramName.test(name) || spelled === 'watch') throw bad('watch_params: a parameter cannot be used')
  return [[spelled, [String(value)]]]
}

function parse(text: string): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw invalid('JSON is needed')
  }
  if (!isObject(value)) throw invalid('an object is needed')
  return value
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}

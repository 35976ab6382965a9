import type { ServerResponse } from 'node:http'
import type { KubeObject } from './kube-object.ts'
import type { RequestTarget } from './request-target.ts'
import { apiVersionOf } from './resources.ts'
import { parseSelectors, type Selector } from './selectors.ts'
import { StatusError } from './status-error.ts'
import type { Store, StoreEvent } from './store.ts'
import { metadataOf, type Shape, tableOf } from './tables.ts'

/** Limit of a watcher's unread bytes, after which it is cut; it lists again, as with a real API server. */
const maxUnreadBytes = 1_048_576
const initialEventsEnd = 'k8s.io/initial-events-end'

interface WatchCall {
  readonly store: Store
  readonly target: RequestTarget
  readonly response: ServerResponse
  readonly shape: Shape
  readonly now: () => number
}

/**
 * Serves a watch until its client leaves or `timeoutSeconds` are over: one JSON event a line, each sent at once.
 *
 * @throws StatusError 400, 410 before the first byte was sent
 */
export function serveWatch(call: WatchCall): void {
  const { store, target, response } = call
  const matches = parseSelectors(target.query)
  const version = target.query.get('resourceVersion') ?? ''
  const withState = target.query.get('sendInitialEvents') === 'true' || version === '' || version === '0'
  const missed = withState ? [] : store.eventsAfter(parseVersion(version))
  const writer = new EventWriter(call)
  response.writeHead(200, { 'Content-Type': 'application/json' })
  response.flushHeaders()
  if (withState) {
    for (const object of store.list(target.resource, target.namespace).filter(matches)) writer.write('ADDED', object)
    if (target.query.get('sendInitialEvents') === 'true') writer.write('BOOKMARK', bookmark(target, store.version))
  }
  const forward = (event: StoreEvent) => {
    const type = typeFor(event, target, matches)
    if (type) writer.write(type, event.object)
  }
  missed.forEach(forward)
  const stopListening = store.onEvent(forward)
  const seconds = Number(target.query.get('timeoutSeconds') ?? 0)
  const timer = seconds > 0 ? setTimeout(() => response.end(), Math.min(seconds, 86_400) * 1000) : undefined
  response.once('close', () => {
    stopListening()
    clearTimeout(timer)
  })
}

class EventWriter {
  readonly #call: WatchCall
  #first = true

  constructor(call: WatchCall) {
    this.#call = call
  }

  write(type: string, object: KubeObject): void {
    const { response } = this.#call
    if (response.writableEnded || response.destroyed) return
    response.write(`${JSON.stringify({ type, object: this.#shaped(object) })}\n`)
    this.#first = false
    if (response.writableLength > maxUnreadBytes) response.destroy()
  }

  #shaped(object: KubeObject): unknown {
    const { shape, target, now } = this.#call
    if (shape === 'metadata') return metadataOf(object)
    if (shape === 'object') return object
    const includeObject = target.query.get('includeObject') ?? 'Metadata'
    const version = object.metadata.resourceVersion ?? ''
    return tableOf(target.resource, [object], { includeObject, now: now(), version, columns: this.#first })
  }
}

/** Returns an event's type for this watcher: an object that starts or stops matching was added or deleted. */
function typeFor({ resource, object, previous, type }: StoreEvent, target: RequestTarget, matches: Selector) {
  if (resource !== target.resource) return undefined
  if (target.namespace !== undefined && object.metadata.namespace !== target.namespace) return undefined
  if (target.name !== undefined && object.metadata.name !== target.name) return undefined
  const before = previous !== undefined && matches(previous)
  const after = type !== 'DELETED' && matches(object)
  if (after) return before ? 'MODIFIED' : 'ADDED'
  return before ? 'DELETED' : undefined
}

function parseVersion(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new StatusError(400, `invalid resource version ${JSON.stringify(text.slice(0, 100))}`)
}

function bookmark({ resource }: RequestTarget, version: number): KubeObject {
  const metadata = { name: '', resourceVersion: String(version), annotations: { [initialEventsEnd]: 'true' } }
  return { kind: resource.kind, apiVersion: apiVersionOf(resource), metadata }
}

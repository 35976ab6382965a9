import { randomUUID } from 'node:crypto'
import type { KubeObject } from './kube-object.ts'
import { apiVersionOf, qualifiedName, type Resource } from './resources.ts'
import { StatusError } from './status-error.ts'

export interface StoreEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly resource: Resource
  readonly object: KubeObject
  /** the replaced object: a watch with a selector must report when an object stops matching */
  readonly previous?: KubeObject
  readonly version: number
}

export interface StoreOptions {
  /** limit of objects of all kinds together; one more is refused with 429 */
  readonly maxObjects: number
  /** limit of kept events for watches that start at an older version */
  readonly maxEvents: number
  /** current time. ms since 1970 */
  readonly now: () => number
}

export const defaultStoreOptions: StoreOptions = { maxObjects: 1000, maxEvents: 1000, now: () => Date.now() }

interface Key {
  readonly resource: Resource
  readonly namespace?: string | undefined
  readonly name: string
}

/** Objects in memory under one resource version, with the latest events. Objects are never changed, only replaced. */
export class Store {
  readonly #options: StoreOptions
  readonly #objects = new Map<string, { resource: Resource; object: KubeObject }>()
  readonly #events: StoreEvent[] = []
  readonly #listeners = new Set<(event: StoreEvent) => void>()
  #version = 1
  /** version of the newest event that is no longer kept */
  #forgotten = 1

  constructor(options: Partial<StoreOptions> = {}) {
    this.#options = { ...defaultStoreOptions, ...options }
  }

  get version(): number {
    return this.#version
  }

  list(resource: Resource, namespace: string | undefined): KubeObject[] {
    return [...this.#objects.values()]
      .filter((row) => row.resource === resource)
      .map((row) => row.object)
      .filter((object) => namespace === undefined || object.metadata.namespace === namespace)
      .sort((a, b) => compare(a.metadata.namespace, b.metadata.namespace) || compare(a.metadata.name, b.metadata.name))
  }

  has(key: Key): boolean {
    return this.#objects.has(keyText(key))
  }

  /** @throws StatusError 404 */
  get(key: Key): KubeObject {
    const row = this.#objects.get(keyText(key))
    if (row) return row.object
    throw new StatusError(404, `${qualifiedName(key.resource)} "${key.name}" not found`, { details: details(key) })
  }

  /** @throws StatusError 409 if it exists, 429 if the store is full */
  create(key: Key, object: KubeObject): KubeObject {
    if (this.has(key)) {
      const text = `${qualifiedName(key.resource)} "${key.name}" already exists`
      throw new StatusError(409, text, { reason: 'AlreadyExists', details: details(key) })
    }
    if (this.#objects.size >= this.#options.maxObjects) {
      throw new StatusError(429, `the API double keeps at most ${this.#options.maxObjects} objects`)
    }
    const creationTimestamp = `${new Date(this.#options.now()).toISOString().slice(0, 19)}Z`
    return this.#put('ADDED', key, object, { uid: randomUUID(), creationTimestamp })
  }

  /** @throws StatusError 404; 409 if `object` names another resource version than the stored one */
  replace(key: Key, object: KubeObject): KubeObject {
    const { metadata } = this.get(key)
    const given = object.metadata.resourceVersion
    if (given && given !== metadata.resourceVersion) {
      const text = `Operation cannot be fulfilled on ${qualifiedName(key.resource)} "${key.name}": the object has been modified; please apply your changes to the latest version and try again`
      throw new StatusError(409, text, { details: details(key) })
    }
    const { uid, creationTimestamp } = metadata
    return this.#put('MODIFIED', key, object, { uid: uid ?? '', creationTimestamp: creationTimestamp ?? '' })
  }

  /** @throws StatusError 404 */
  delete(key: Key): KubeObject {
    const object = this.get(key)
    this.#objects.delete(keyText(key))
    const last = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version + 1) } }
    this.#publish({ type: 'DELETED', resource: key.resource, object: last, previous: object })
    return last
  }

  /** @throws StatusError 410 if events after `version` are no longer kept */
  eventsAfter(version: number): readonly StoreEvent[] {
    if (version < this.#forgotten) {
      throw new StatusError(410, `too old resource version: ${version} (${this.#forgotten})`)
    }
    return this.#events.filter((event) => event.version > version)
  }

  onEvent(listener: (event: StoreEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #put(type: 'ADDED' | 'MODIFIED', key: Key, object: KubeObject, fixed: { uid: string; creationTimestamp: string }) {
    const { resource, namespace, name } = key
    const metadata = { ...object.metadata, name, ...fixed, resourceVersion: String(this.#version + 1) }
    if (namespace !== undefined) metadata.namespace = namespace
    const kept: KubeObject = { ...object, kind: resource.kind, apiVersion: apiVersionOf(resource), metadata }
    const previous = this.#objects.get(keyText(key))?.object
    this.#objects.set(keyText(key), { resource, object: kept })
    this.#publish({ type, resource, object: kept, ...(previous ? { previous } : {}) })
    return kept
  }

  #publish(change: Omit<StoreEvent, 'version'>): void {
    const event: StoreEvent = { ...change, version: ++this.#version }
    this.#events.push(event)
    if (this.#events.length > this.#options.maxEvents) {
      this.#forgotten = this.#events.shift()?.version ?? this.#forgotten
    }
    for (const listener of [...this.#listeners]) listener(event)
  }
}

function keyText({ resource, namespace, name }: Key): string {
  return [resource.group, resource.name, namespace ?? '', name].join('/')
}

function details({ resource, name }: Key): Record<string, unknown> {
  return { name, ...(resource.group ? { group: resource.group } : {}), kind: resource.name }
}

function compare(a = '', b = ''): number {
  return a < b ? -1 : a > b ? 1 : 0
}

import type { Clock } from '../../../../lib/clock.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import type { ApiLane } from '../../../cluster/api-lanes.ts'
import { ObjectWatch } from '../../../cluster/object-watch.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import { entryAt, textAt } from '../../../health/object.ts'
import { collectionPath } from '../cluster-kinds.ts'
import type { SharedKinds } from '../shared-kinds.ts'
import type { Wishes } from '../source-work.ts'
import { gitSyncStatus } from './git-sync-status.ts'
import type { SourceStatus } from './source-status.ts'

/** A source that changes faster is written down as often as this. ms */
const minWriteMs = 1000
const manager = 'agentk-gitops'
const group = 'agent.gitlab.com'
const kind = 'GitSync'
const agentLabel = `${group}/gitsync-agent`
const approveAnnotation = `${group}/approve`
const pauseAnnotation = `${group}/pause`
const resyncAnnotation = `${group}/resync`
/** objects */
const pageSize = 100

export interface GitSyncsComponents {
  /** agentk's own */
  readonly lane: ApiLane
  readonly client: Pick<ApiClient, 'json' | 'send'>
  readonly kinds: SharedKinds
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface GitSyncsOptions {
  /** of agentk */
  readonly namespace: string
  readonly agentId: bigint
}

/** Where they stand: GitSyncs, or ConfigMaps where their kind is not installed. */
interface Place {
  readonly path: string
  nameOf(id: string): string
  bodyOf(status: object): object
  readonly type: { readonly apiVersion: string; readonly kind: string }
}

/**
 * How each source fares, in an object of its own, which people annotate to say what they wish: `approve` a plan, `pause`,
 * `resync`.
 */
export class GitSyncs implements WatchSink {
  readonly #components: GitSyncsComponents
  readonly #options: GitSyncsOptions
  readonly #listeners = new Map<string, () => void>()
  /** wishes as they were last told, by the object's name */
  readonly #told = new Map<string, string>()
  /** to be written, by source */
  readonly #due = new Map<string, SourceStatus>()
  #place: Place | undefined
  #signal: AbortSignal | undefined

  constructor(components: GitSyncsComponents, options: GitSyncsOptions) {
    this.#components = components
    this.#options = options
  }

  /** Listens until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal
    const { path } = await this.#find(signal)
    const selector = encodeURIComponent(`${agentLabel}=${this.#options.agentId}`)
    const options = { path: `${path}?labelSelector=${selector}`, pageSize, isMetadata: true, resumes: true }
    await new ObjectWatch({ ...this.#components, sink: this }, options).run(signal)
  }

  /** Calls `listener` when the wishes of a source have changed. @returns ends that */
  onWish(id: string, listener: () => void): () => void {
    this.#listeners.set(id, listener)
    return () => this.#listeners.delete(id)
  }

  /** @throws Error: it cannot be read */
  async wishes(id: string, signal: AbortSignal): Promise<Wishes> {
    const { path, nameOf } = await this.#find(signal)
    const { status, body } = await this.#components.lane.json('GET', `${path}/${nameOf(id)}`, undefined, signal)
    if (status !== 200 && status !== 404)
      throw new Error(`the state of ${id} cannot be read: ${textAt(body, 'message')}`)
    const annotation = (name: string) => entryAt(body, 'metadata.annotations', name)
    return { approved: annotation(approveAnnotation), isPaused: /^(?:true|yes)$/i.test(annotation(pauseAnnotation)) }
  }

  /** Written soon, and as it is then. */
  write(status: SourceStatus): void {
    const { id } = status.options
    if (this.#due.has(id) || this.#signal?.aborted) return
    this.#due.set(id, status)
    this.#components.clock.after(minWriteMs, () => {
      this.#due.delete(id)
      void this.#write(status)
    })
  }

  listing(): void {}

  put(object: unknown): void {
    const name = textAt(object, 'metadata.name')
    const wishes = [approveAnnotation, pauseAnnotation, resyncAnnotation]
    const told = JSON.stringify(wishes.map((wish) => entryAt(object, 'metadata.annotations', wish)))
    const before = this.#told.get(name)
    this.#told.set(name, told)
    if (before === told || (before === undefined && told === '["","",""]')) return
    for (const [id, listener] of this.#listeners) if (this.#place?.nameOf(id) === name) listener()
  }

  gone(object: unknown): void {
    this.#told.delete(textAt(object, 'metadata.name'))
  }

  leftOut(): void {}
  listed(): void {}
  following(): void {}
  ended(): void {}

  async #find(signal: AbortSignal): Promise<Place> {
    const kinds = await this.#components.kinds.current(signal)
    const { namespace } = this.#options
    const found = kinds.find({ group, kind })
    this.#place = found
      ? {
          path: collectionPath(found, namespace),
          nameOf: (id) => id,
          bodyOf: (status) => ({ status }),
          type: { apiVersion: `${group}/${found.version}`, kind },
        }
      : {
          path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps`,
          nameOf: (id) => `gitops-${id}-sync`,
          bodyOf: (status) => ({ data: { status: JSON.stringify(status) } }),
          type: { apiVersion: 'v1', kind: 'ConfigMap' },
        }
    return this.#place
  }

  async #write(status: SourceStatus): Promise<void> {
    const { lane, log } = this.#components
    const signal = this.#signal
    if (!signal || signal.aborted) return
    const { id } = status.options
    try {
      const { path, nameOf, bodyOf, type } = await this.#find(signal)
      const name = nameOf(id)
      const labels = { [agentLabel]: String(this.#options.agentId) }
      const object = { ...type, metadata: { name, labels }, ...bodyOf(gitSyncStatus(status)) }
      const contentType = 'application/apply-patch+yaml'
      const target = `${path}/${name}?fieldManager=${manager}&force=true`
      const answer = await lane.json('PATCH', target, object, signal, { contentType })
      if (answer.status >= 300)
        throw new Error(textAt(answer.body, 'message') || `the API server answered ${answer.status}`)
    } catch (error) {
      if (!signal.aborted) log.warn({ source: id, reason: errorText(error) }, 'The state of a source cannot be written')
    }
  }
}

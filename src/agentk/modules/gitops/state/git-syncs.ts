import { Backoff } from '../../../../lib/backoff.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { pause } from '../../../../lib/pause.ts'
import { linkedController } from '../../../../lib/signals.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import type { ApiLane } from '../../../cluster/api-lanes.ts'
import { ObjectWatch } from '../../../cluster/object-watch.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import { entryAt, textAt } from '../../../health/object.ts'
import { collectionPath } from '../cluster-kinds.ts'
import type { SharedKinds } from '../shared-kinds.ts'
import type { Wishes } from '../source-work.ts'
import { gitSyncSpec, gitSyncStatus } from './git-sync-status.ts'
import type { SourceEvents } from './source-events.ts'
import type { SourceStatus } from './source-status.ts'

/** A source that changes faster is written down as often as this. ms */
const minWriteMs = 1000
/** What the API server does not take is written again. ms */
const backoffOptions = { firstMs: 2000, maxMs: 300_000, factor: 2, jitter: 0.2, resetMs: 3600_000 }
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
  readonly events: Pick<SourceEvents, 'tell'>
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
  /** what is written at its path */
  bodyOf(status: SourceStatus): object
  /** what is written at its path's `/status`; absent: nothing is */
  readonly statusOf?: (status: SourceStatus) => object
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
  readonly #told = new Map<string, { readonly approved: string; readonly others: string }>()
  /** to be written, by source */
  readonly #due = new Map<string, SourceStatus>()
  readonly #writing = new Set<string>()
  /** writes on their way, by source */
  readonly #sent = new Map<string, Promise<boolean>>()
  /** paths of GitSyncs that were made, or found, with what they are to hold beside their status */
  readonly #made = new Set<string>()
  #place: Place | undefined
  /** ends the watch that runs */
  #watched: AbortController | undefined
  #signal: AbortSignal | undefined

  constructor(components: GitSyncsComponents, options: GitSyncsOptions) {
    this.#components = components
    this.#options = options
  }

  /** Listens until the signal aborts, where they stand at the time. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal
    const backoff = new Backoff(this.#components, backoffOptions)
    while (!signal.aborted) {
      try {
        await this.#watch(await this.#find(signal), signal)
        backoff.reset()
      } catch (error) {
        if (signal.aborted) return
        this.#components.log.warn({ reason: errorText(error) }, 'What people wish of sources cannot be read')
        await backoff.wait(signal)
      }
    }
  }

  /** Until they stand elsewhere. */
  async #watch(place: Place, signal: AbortSignal): Promise<void> {
    if (this.#place !== place) return
    const watched = linkedController(signal)
    this.#watched = watched
    this.#told.clear()
    const selector = encodeURIComponent(`${agentLabel}=${this.#options.agentId}`)
    const options = { path: `${place.path}?labelSelector=${selector}`, pageSize, isMetadata: true, resumes: true }
    try {
      await new ObjectWatch({ ...this.#components, sink: this }, options).run(watched.signal)
    } finally {
      watched.dispose()
    }
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

  /** Takes back that somebody has approved that plan. @throws Error: it still is approved, or something else is by now */
  async useApproval(id: string, approved: string, signal: AbortSignal): Promise<void> {
    const { path, nameOf } = await this.#find(signal)
    const at = `/metadata/annotations/${approveAnnotation.replace('/', '~1')}`
    const patch = [
      { op: 'test', path: at, value: approved },
      { op: 'remove', path: at },
    ]
    const target = `${path}/${nameOf(id)}?fieldManager=${manager}`
    const options = { contentType: 'application/json-patch+json' }
    const { status, body } = await this.#components.lane.json('PATCH', target, patch, signal, options)
    if (status !== 200) throw new Error(`the approval of ${id} cannot be used: ${textAt(body, 'message')}`)
  }

  /** Written soon, as it is then, and until it is taken. */
  write(status: SourceStatus): void {
    const { id } = status.options
    if (!this.#signal || this.#signal.aborted) return
    this.#due.set(id, status)
    if (!this.#writing.has(id)) void this.#writeDue(id, this.#signal)
  }

  /** One after another. */
  async #writeDue(id: string, signal: AbortSignal): Promise<void> {
    const { clock } = this.#components
    const backoff = new Backoff(this.#components, backoffOptions)
    this.#writing.add(id)
    await pause(minWriteMs, clock, signal)
    for (let status = this.#due.get(id); status && !signal.aborted; status = this.#due.get(id)) {
      this.#due.delete(id)
      const sent = this.#write(status, signal)
      this.#sent.set(id, sent)
      const isTaken = await sent
      this.#sent.delete(id)
      if (isTaken) {
        backoff.reset()
        await pause(minWriteMs, clock, signal)
      } else {
        if (!this.#due.has(id)) this.#due.set(id, status)
        await backoff.wait(signal)
      }
    }
    this.#writing.delete(id)
  }

  /** Of a source that is gone; what people wish of it goes, too. @throws Error: it is there still */
  async remove(id: string, signal: AbortSignal): Promise<void> {
    this.#due.delete(id)
    await this.#sent.get(id)
    this.#due.delete(id) // it may not have been taken
    const { path, nameOf } = await this.#find(signal)
    const own = `${path}/${nameOf(id)}`
    this.#made.delete(own)
    const { status, body } = await this.#components.lane.json('DELETE', own, undefined, signal)
    if (status >= 300 && status !== 404) throw new Error(`the state of ${id} stays: ${textAt(body, 'message')}`)
  }

  listing(): void {}

  put(object: unknown): void {
    const name = textAt(object, 'metadata.name')
    const [approved = '', ...others] = [approveAnnotation, pauseAnnotation, resyncAnnotation].map((wish) =>
      entryAt(object, 'metadata.annotations', wish),
    )
    const told = { approved, others: others.join() }
    const before = this.#told.get(name) ?? { approved: '', others: others.map(() => '').join() }
    this.#told.set(name, told)
    // an approval that is taken back is no wish
    if (before.others === told.others && (approved === '' || before.approved === approved)) return
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
    // elsewhere nobody has said that a source is to pause
    if (!found && kinds.isStale(group)) throw new Error(`whether the API server has ${group} is not known now`)
    const place: Place = found
      ? {
          path: collectionPath(found, namespace),
          nameOf: (id) => id,
          bodyOf: (status) => ({ spec: gitSyncSpec(status) }),
          statusOf: (status) => ({ status: gitSyncStatus(status) }),
          type: { apiVersion: `${group}/${found.version}`, kind },
        }
      : {
          path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps`,
          nameOf: (id) => `gitops-${id}-sync`,
          bodyOf: (status) => ({ data: { status: JSON.stringify(gitSyncStatus(status)) } }),
          type: { apiVersion: 'v1', kind: 'ConfigMap' },
        }
    if (this.#place?.path === place.path) return this.#place
    this.#place = place
    this.#made.clear()
    this.#watched?.abort(new KasError({ code: 'CANCELLED', detail: 'states stand elsewhere now' }))
    return place
  }

  /** @returns whether it was taken */
  async #write(status: SourceStatus, signal: AbortSignal): Promise<boolean> {
    const { id } = status.options
    let path = ''
    try {
      const { path: folder, nameOf, bodyOf, statusOf, type } = await this.#find(signal)
      const name = nameOf(id)
      path = `${folder}/${name}`
      const labels = { [agentLabel]: String(this.#options.agentId) }
      const { state } = status
      let written: unknown
      if (!statusOf || !this.#made.has(path))
        written = await this.#apply(path, { ...type, metadata: { name, labels }, ...bodyOf(status) }, signal)
      if (statusOf) {
        this.#made.add(path)
        written = await this.#apply(`${path}/status`, { ...type, metadata: { name }, ...statusOf(status) }, signal)
      }
      const about = { ...type, namespace: this.#options.namespace, name, uid: textAt(written, 'metadata.uid') }
      this.#components.events.tell(about, state, signal)
      return true
    } catch (error) {
      this.#made.delete(path) // perhaps somebody has deleted it
      if (!signal.aborted)
        this.#components.log.warn({ source: id, reason: errorText(error) }, 'The state of a source cannot be written')
      return false
    }
  }

  /** @returns the object as it is now */
  async #apply(path: string, object: object, signal: AbortSignal): Promise<unknown> {
    const options = { contentType: 'application/apply-patch+yaml' }
    const target = `${path}?fieldManager=${manager}&force=true`
    const { status, body } = await this.#components.lane.json('PATCH', target, object, signal, options)
    if (status >= 300) throw new Error(textAt(body, 'message') || `the API server answered ${status}`)
    return body
  }
}

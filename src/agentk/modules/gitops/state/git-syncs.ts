import { apiVersionOf, builtIn } from '../../../../kubernetes/kind.ts'
import { entryAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, withQuery } from '../../../../kubernetes/path.ts'
import { Backoff } from '../../../../lib/backoff.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { pause } from '../../../../lib/pause.ts'
import { linkedController } from '../../../../lib/signals.ts'
import type { SourceState } from '../../../../proto/gen/gitops_states_pb.ts'
import { approveAnnotation } from '../../../../proto/gitops/annotations.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import type { ApiLane } from '../../../cluster/api-lanes.ts'
import { ObjectWatch } from '../../../cluster/object-watch.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import type { Directives, DirectivesReader } from '../round.ts'
import { hasIdForm } from '../source-options.ts'
import { gitSyncSpec, gitSyncStatus } from './git-sync-status.ts'
import type { SourceEvents } from './source-events.ts'
import type { StatusReader } from './status-sink.ts'

/** A source that changes faster is written down as often as this. ms */
const minWriteMs = 1000
/** What the API server does not take is written again. ms */
const backoffOptions = { firstMs: 2000, maxMs: 300_000, factor: 2, jitter: 0.2, resetMs: 3600_000 }
const manager = 'agentk-gitops'
const group = 'agent.gitlab.com'
const kind = 'GitSync'
const agentLabel = `${group}/gitsync-agent`
const pauseAnnotation = `${group}/pause`
const resyncAnnotation = `${group}/resync`
const forgetAnnotation = `${group}/forget`
/** objects */
const pageSize = 100

export interface GitSyncsComponents {
  /** agentk's own */
  readonly lane: ApiLane
  readonly client: Pick<ApiClient, 'json' | 'send'>
  readonly kinds: SharedKinds
  readonly events: Pick<SourceEvents, 'write'>
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
  bodyOf(state: SourceState): object
  /** what is written at its path's `/status`; absent: nothing is */
  readonly statusOf?: (state: SourceState) => object
  readonly type: { readonly apiVersion: string; readonly kind: string }
}

/**
 * How each source fares, in an object of its own, which people annotate to say what they want of it: `approve` a plan,
 * `pause`, `resync`.
 */
export class GitSyncs implements WatchSink, StatusReader, DirectivesReader {
  readonly #components: GitSyncsComponents
  readonly #options: GitSyncsOptions
  readonly #listeners = new Map<string, () => void>()
  /** directives as they were last seen, by the object's name */
  readonly #seen = new Map<string, { readonly approved: string; readonly others: string }>()
  /** to be written, by source */
  readonly #due = new Map<string, SourceState>()
  readonly #writing = new Set<string>()
  /** writes on their way, by source */
  readonly #sent = new Map<string, Promise<boolean>>()
  /** paths of GitSyncs that were made, or found, with what they are to hold beside their status */
  readonly #made = new Set<string>()
  /** called when the object of a source was made, or found */
  onMade: (id: string) => void = () => undefined
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
        this.#components.log.warn({ reason: errorText(error) }, 'What people ask of sources cannot be read')
        await backoff.wait(signal)
      }
    }
  }

  /** Until they stand elsewhere. */
  async #watch(place: Place, signal: AbortSignal): Promise<void> {
    if (this.#place !== place) return
    const watched = linkedController(signal)
    this.#watched = watched
    this.#seen.clear()
    const path = withQuery(place.path, { labelSelector: `${agentLabel}=${this.#options.agentId}` })
    const options = { path, pageSize, isMetadata: true, resumes: true }
    try {
      await new ObjectWatch({ ...this.#components, sink: this }, options).run(watched.signal)
    } finally {
      watched.dispose()
    }
  }

  /** Calls `listener` when the directives of a source have changed. @returns ends that */
  onDirectives(id: string, listener: () => void): () => void {
    this.#listeners.set(id, listener)
    return () => this.#listeners.delete(id)
  }

  /** @throws Error: it cannot be read */
  async directives(id: string, signal: AbortSignal): Promise<Directives> {
    const { path, nameOf } = await this.#find(signal)
    const { status, body } = await this.#components.lane.json('GET', `${path}/${nameOf(id)}`, undefined, signal)
    if (status !== 200 && status !== 404)
      throw new Error(`the state of ${id} cannot be read: ${textAt(body, 'message')}`)
    const annotation = (name: string) => entryAt(body, 'metadata.annotations', name)
    const isTrue = (name: string) => /^(?:true|yes)$/i.test(annotation(name))
    return {
      approved: annotation(approveAnnotation),
      isSuspended: isTrue(pauseAnnotation),
      isForgotten: isTrue(forgetAnnotation),
    }
  }

  /** Takes back that somebody has approved that plan. @throws Error: it still is approved, or something else is by now */
  async useApproval(id: string, approved: string, signal: AbortSignal): Promise<void> {
    const { path, nameOf } = await this.#find(signal)
    const at = `/metadata/annotations/${approveAnnotation.replace('/', '~1')}`
    const patch = [
      { op: 'test', path: at, value: approved },
      { op: 'remove', path: at },
    ]
    const target = withQuery(`${path}/${nameOf(id)}`, { fieldManager: manager })
    const options = { contentType: 'application/json-patch+json' }
    const { status, body } = await this.#components.lane.json('PATCH', target, patch, signal, options)
    if (status !== 200) throw new Error(`the approval of ${id} cannot be used: ${textAt(body, 'message')}`)
  }

  /** Of the object of a source; empty: it is not there yet. */
  pathOf(id: string): string {
    const path = this.#place && `${this.#place.path}/${this.#place.nameOf(id)}`
    return path !== undefined && this.#made.has(path) ? path : ''
  }

  /** Written soon, as it is then, and until it is taken. */
  changed(state: SourceState): void {
    const { source: id } = state
    if (!this.#signal || this.#signal.aborted || !hasIdForm(id)) return
    this.#due.set(id, state)
    if (!this.#writing.has(id)) void this.#writeDue(id, this.#signal)
  }

  /** The round that has removed the last of it has taken the object away: see `remove`. */
  removed(): void {}

  /** One after another. */
  async #writeDue(id: string, signal: AbortSignal): Promise<void> {
    const { clock } = this.#components
    const backoff = new Backoff(this.#components, backoffOptions)
    this.#writing.add(id)
    await pause(minWriteMs, clock, signal)
    for (let state = this.#due.get(id); state && !signal.aborted; state = this.#due.get(id)) {
      this.#due.delete(id)
      const sent = this.#write(state, signal)
      this.#sent.set(id, sent)
      const isTaken = await sent
      this.#sent.delete(id)
      if (isTaken) {
        backoff.reset()
        await pause(minWriteMs, clock, signal)
      } else {
        if (!this.#due.has(id)) this.#due.set(id, state)
        await backoff.wait(signal)
      }
    }
    this.#writing.delete(id)
  }

  /** Of a source that is gone; what people ask of it goes, too. @throws Error: it is there still */
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
    const [approved = '', ...others] = [approveAnnotation, pauseAnnotation, resyncAnnotation, forgetAnnotation].map(
      (directive) => entryAt(object, 'metadata.annotations', directive),
    )
    const seen = { approved, others: others.join() }
    const before = this.#seen.get(name) ?? { approved: '', others: others.map(() => '').join() }
    this.#seen.set(name, seen)
    // an approval that is taken back asks for nothing
    if (before.others === seen.others && (approved === '' || before.approved === approved)) return
    for (const [id, listener] of this.#listeners) if (this.#place?.nameOf(id) === name) listener()
  }

  deleted(object: unknown): void {
    this.#seen.delete(textAt(object, 'metadata.name'))
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
          bodyOf: (state) => ({ spec: gitSyncSpec(state) }),
          statusOf: (state) => ({ status: gitSyncStatus(state) }),
          type: { apiVersion: apiVersionOf(found), kind },
        }
      : {
          path: collectionPath(builtIn.configMaps, namespace),
          nameOf: (id) => `gitops-${id}-sync`,
          bodyOf: (state) => ({ data: { status: JSON.stringify(gitSyncStatus(state)) } }),
          type: { apiVersion: 'v1', kind: 'ConfigMap' },
        }
    if (this.#place?.path === place.path) return this.#place
    this.#place = place
    this.#made.clear()
    this.#watched?.abort(new KasError({ code: 'CANCELLED', detail: 'states stand elsewhere now' }))
    return place
  }

  /** @returns whether it was taken */
  async #write(state: SourceState, signal: AbortSignal): Promise<boolean> {
    const { source: id } = state
    let path = ''
    try {
      const { path: folder, nameOf, bodyOf, statusOf, type } = await this.#find(signal)
      const name = nameOf(id)
      path = `${folder}/${name}`
      const labels = { [agentLabel]: String(this.#options.agentId) }
      let written: unknown
      if (!statusOf || !this.#made.has(path))
        written = await this.#apply(path, { ...type, metadata: { name, labels }, ...bodyOf(state) }, signal)
      const isNew = !this.#made.has(path)
      this.#made.add(path)
      if (isNew) this.onMade(id)
      if (statusOf) {
        written = await this.#apply(`${path}/status`, { ...type, metadata: { name }, ...statusOf(state) }, signal)
      }
      const about = { ...type, namespace: this.#options.namespace, name, uid: textAt(written, 'metadata.uid') }
      this.#components.events.write(about, state, signal)
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
    const target = withQuery(path, { fieldManager: manager, force: true })
    const { status, body } = await this.#components.lane.json('PATCH', target, object, signal, options)
    if (status >= 300) throw new Error(textAt(body, 'message') || `the API server answered ${status}`)
    return body
  }
}

import { apiVersionOf, builtIn } from '../../../../kubernetes/kind.ts'
import { at, entryAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, withQuery } from '../../../../kubernetes/path.ts'
import { Backoff } from '../../../../lib/backoff.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { pause } from '../../../../lib/pause.ts'
import { linkedController } from '../../../../lib/signals.ts'
import type { SourceState } from '../../../../proto/gen/gitops_states_pb.ts'
import { approveAnnotation, pauseAnnotation, resyncAnnotation, saysYes } from '../../../../proto/gitops/annotations.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { ObjectWatch } from '../../../cluster/object-watch.ts'
import { WatchLists } from '../../../cluster/watch-lists.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import type { Directives, DirectivesReader } from '../round.ts'
import { hasIdForm } from '../source-options.ts'
import { type GitSyncStatus, gitSyncSpec, gitSyncStatus } from './git-sync-status.ts'
import { ResyncMarks } from './resync-marks.ts'
import type { SourceEvents } from './source-events.ts'
import type { StatusReader } from './status-sink.ts'
import { type Transition, transitionsIn } from './transitions.ts'

/** Least time between two writes of one source. ms */
const minWriteMs = 1000
/** Pauses after a write that the API server does not take. ms */
const backoffOptions = { firstMs: 2000, maxMs: 300_000, factor: 2, jitter: 0.2, resetMs: 3600_000 }
const manager = 'agentk-gitops'
const group = 'agent.gitlab.com'
const kind = 'GitSync'
const agentLabel = `${group}/gitsync-agent`
const forgetAnnotation = `${group}/forget`
/** objects in a page */
const pageSize = 100

export interface GitSyncsComponents {
  /** acts as agentk itself */
  readonly lane: ApiLane
  readonly client: Pick<ApiClient, 'json' | 'send'>
  readonly kinds: SharedKinds
  readonly events: Pick<SourceEvents, 'write' | 'forget'>
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface GitSyncsOptions {
  /** namespace of agentk */
  readonly namespace: string
  readonly agentId: bigint
}

/** Content of an object. */
interface Content {
  readonly spec: object
  readonly status: GitSyncStatus
}

/** Place and form of the objects: GitSyncs, or ConfigMaps if that kind is not installed. */
interface Place {
  readonly path: string
  nameOf(id: string): string
  /** content for its path */
  bodyOf(content: Content): object
  /** content for its path's `/status`; absent: nothing is written there */
  readonly statusOf?: (content: Content) => object
  /** Returns the status in an object; anything else if somebody has written that. */
  statusIn(object: unknown): unknown
  readonly type: { readonly apiVersion: string; readonly kind: string }
}

/**
 * Shows the state of each source in an object of its own. People annotate it with directives: `approve` a plan,
 * `pause`, `resync`.
 */
export class GitSyncs implements WatchSink, StatusReader, DirectivesReader {
  readonly #components: GitSyncsComponents
  readonly #options: GitSyncsOptions
  readonly #watchLists: WatchLists
  readonly #listeners = new Map<string, () => void>()
  /** last read directives, by the object's name */
  readonly #seen = new Map<string, { readonly approved: string; readonly others: string }>()
  /** states to write, by source */
  readonly #due = new Map<string, SourceState>()
  readonly #writing = new Set<string>()
  /** writes on their way, by source */
  readonly #sent = new Map<string, Promise<boolean>>()
  /** paths of objects that were made, or found, with their fields beside the status */
  readonly #made = new Set<string>()
  /** conditions as they were written last, by path; absent: not read in this term */
  readonly #transitions = new Map<string, readonly Transition[]>()
  readonly #resyncs = new ResyncMarks()
  /** called when the object of a source was made, or found */
  onMade: (id: string) => void = () => undefined
  #place: Place | undefined
  /** ends the current watch */
  #watched: AbortController | undefined
  #signal: AbortSignal | undefined

  constructor(components: GitSyncsComponents, options: GitSyncsOptions) {
    this.#components = components
    this.#options = options
    this.#watchLists = new WatchLists(components.clock)
  }

  /** Watches the objects until the signal aborts, wherever they are at the time. Never rejects. */
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

  /** Watches until the objects have another place. */
  async #watch(place: Place, signal: AbortSignal): Promise<void> {
    if (this.#place !== place) return
    const watched = linkedController(signal)
    this.#watched = watched
    this.#seen.clear()
    const path = withQuery(place.path, { labelSelector: `${agentLabel}=${this.#options.agentId}` })
    const options = { path, pageSize, isMetadata: true, resumes: true }
    try {
      const components = { ...this.#components, watchLists: this.#watchLists, sink: this }
      await new ObjectWatch(components, options).run(watched.signal)
    } finally {
      watched.dispose()
    }
  }

  /** Calls `listener` when the directives for a source have changed. @returns function that removes the listener */
  onDirectives(id: string, listener: () => void): () => void {
    this.#listeners.set(id, listener)
    return () => this.#listeners.delete(id)
  }

  /** @throws Error: the directives cannot be read */
  async directives(id: string, signal: AbortSignal): Promise<Directives> {
    const { path, nameOf, statusIn } = await this.#find(signal)
    const own = `${path}/${nameOf(id)}`
    const { status, body } = await this.#components.lane.json('GET', own, undefined, signal)
    if (status !== 200 && status !== 404)
      throw new Error(`the state of ${id} cannot be read: ${textAt(body, 'message')}`)
    if (!this.#transitions.has(own)) this.#transitions.set(own, status === 200 ? transitionsIn(statusIn(body)) : [])
    const annotation = (name: string) => entryAt(body, 'metadata.annotations', name)
    return {
      approved: annotation(approveAnnotation),
      isSuspended: saysYes(annotation(pauseAnnotation)),
      resync: annotation(resyncAnnotation),
      resynced: this.#resyncs.read(own, body),
      isForgotten: saysYes(annotation(forgetAnnotation)),
    }
  }

  /** Removes the approval of that plan. @throws Error: it stays, or another plan is approved by now */
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

  resynced(id: string, resync: string): void {
    const path = this.#placeOf(id)
    if (path !== undefined) this.#resyncs.done(path, resync)
  }

  /** Returns the path of a source's object; empty: it does not exist yet. */
  pathOf(id: string): string {
    const path = this.#placeOf(id)
    return path !== undefined && this.#made.has(path) ? path : ''
  }

  /** Returns the path that a source's object has, or will have; undefined: the place is not known yet. */
  #placeOf(id: string): string | undefined {
    return this.#place && `${this.#place.path}/${this.#place.nameOf(id)}`
  }

  /** Writes the state soon, as it is then, until the API server takes it. */
  changed(state: SourceState): void {
    const { source: id } = state
    if (!this.#signal || this.#signal.aborted || !hasIdForm(id)) return
    this.#due.set(id, state)
    if (!this.#writing.has(id)) void this.#writeDue(id, this.#signal)
  }

  /** Does nothing: the last round of a removed source calls `remove`. */
  removed(): void {}

  /** Writes one state after another. */
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

  /** Deletes the object of a removed source, with its directives. @throws Error: it still exists */
  async remove(id: string, signal: AbortSignal): Promise<void> {
    this.#due.delete(id)
    await this.#sent.get(id)
    this.#due.delete(id) // a write that was not taken has put it back
    const { path, nameOf } = await this.#find(signal)
    const own = `${path}/${nameOf(id)}`
    this.#made.delete(own)
    this.#transitions.delete(own)
    this.#resyncs.forget(own)
    this.#components.events.forget(nameOf(id))
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
    // an approval that was removed asks for nothing
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
    // a ConfigMap would lack the pause that a GitSync has
    if (!found && kinds.isStale(group)) throw new Error(`whether the API server has ${group} is not known now`)
    const place: Place = found
      ? {
          path: collectionPath(found, namespace),
          nameOf: (id) => id,
          bodyOf: ({ spec }) => ({ spec }),
          statusOf: ({ status }) => ({ status }),
          statusIn: (object) => at(object, 'status'),
          type: { apiVersion: apiVersionOf(found), kind },
        }
      : {
          path: collectionPath(builtIn.configMaps, namespace),
          nameOf: (id) => `gitops-${id}-sync`,
          bodyOf: ({ status }) => ({ data: { status: JSON.stringify(status) } }),
          statusIn: (object) => jsonIn(textAt(object, 'data.status')),
          type: { apiVersion: 'v1', kind: 'ConfigMap' },
        }
    if (this.#place?.path === place.path) return this.#place
    this.#place = place
    this.#made.clear()
    this.#transitions.clear()
    this.#watched?.abort(new KasError({ code: 'CANCELLED', detail: 'states stand elsewhere now' }))
    return place
  }

  /** @returns true if the API server has taken it */
  async #write(state: SourceState, signal: AbortSignal): Promise<boolean> {
    const { source: id } = state
    let path = ''
    try {
      const place = await this.#find(signal)
      const { path: folder, nameOf, bodyOf, statusOf, type } = place
      const name = nameOf(id)
      path = `${folder}/${name}`
      const before = this.#transitions.get(path) ?? (await this.#readTransitions(path, place, signal))
      const content = { spec: gitSyncSpec(state), status: gitSyncStatus(state, before) }
      const labels = { [agentLabel]: String(this.#options.agentId) }
      let written: unknown
      if (!statusOf || !this.#made.has(path) || this.#resyncs.isDue(path)) {
        written = await this.#resyncs.write(path, (annotations) => {
          const object = { ...type, metadata: { name, labels, annotations }, ...bodyOf(content) }
          return this.#apply(path, object, signal)
        })
      }
      const isNew = !this.#made.has(path)
      this.#made.add(path)
      if (isNew) this.onMade(id)
      if (statusOf) {
        written = await this.#apply(`${path}/status`, { ...type, metadata: { name }, ...statusOf(content) }, signal)
      }
      this.#transitions.set(path, content.status.conditions)
      const about = { ...type, namespace: this.#options.namespace, name, uid: textAt(written, 'metadata.uid') }
      this.#components.events.write(about, state, signal)
      return true
    } catch (error) {
      this.#made.delete(path) // somebody may have deleted it
      this.#transitions.delete(path)
      if (!signal.aborted)
        this.#components.log.warn({ source: id, reason: errorText(error) }, 'The state of a source cannot be written')
      return false
    }
  }

  /** Reads since when the conditions have their status: an earlier pod has written them. @throws Error */
  async #readTransitions(path: string, { statusIn }: Place, signal: AbortSignal): Promise<readonly Transition[]> {
    const { status, body } = await this.#components.lane.json('GET', path, undefined, signal)
    if (status !== 200 && status !== 404)
      throw new Error(textAt(body, 'message') || `the API server answered ${status}`)
    this.#resyncs.read(path, body)
    if (status === 404) return []
    return transitionsIn(statusIn(body))
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

/** @returns undefined: the text is no JSON */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // there is no status yet, or somebody has written it
  }
}

import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import { at, type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, withQuery } from '../../../../kubernetes/path.ts'
import type { Counter } from '../../../../lib/counter.ts'
import { pause } from '../../../../lib/pause.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { isTooLarge, type Refusal } from '../../../cluster/object-list.ts'
import { ObjectWatch, type ObjectWatchComponents, type WatchTimes } from '../../../cluster/object-watch.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import type { FollowState, ObjectSink } from '../store/record.ts'
import { FailingTime, type LiveWatches } from './failing-time.ts'
import type { Refusals } from './refusals.ts'

/**
 * Order of groups. Two groups may serve the same object under the same uid, such as `extensions` and
 * `networking.k8s.io`. The object belongs to the first of these groups in the server's order.
 */
export interface GroupOrder {
  /** kind under which an object is kept; undefined: it is not kept */
  kindOf(uid: string): ResourceKind | undefined
  comesBefore(group: string, other: string): boolean
}

export interface PartWatchComponents
  extends Omit<ObjectWatchComponents, 'client' | 'sink' | 'untilAllowed' | 'mostRetryMs'> {
  readonly api: Pick<ApiClient, 'json' | 'send'>
  readonly sink: ObjectSink
  /** absent: no other group serves the objects */
  readonly groups?: GroupOrder
  /** open watches by kind: each is a connection */
  readonly open: Counter<string>
  readonly refusals: Pick<Refusals, 'wait'>
  /** watches that are live: while there are any, the API server answers */
  readonly live: LiveWatches
  /** logs that a kind (`group/Kind`) is not followed as it should be */
  readonly onTrouble: (kind: string, error: unknown) => void
}

export interface FollowedKind {
  readonly kind: ResourceKind
  /** only the metadata is read */
  readonly isMetadata: boolean
  /** absent: all objects of the kind */
  readonly fieldSelector?: string
}

/** State of one watch; `why` is for people, and names no object. */
export type PartState = Pick<FollowState, 'is' | 'since' | 'why' | 'message'>

/** Objects per page. */
const pageSize = 500
/** A watch that goes on within this time is not stale. ms */
const staleAfterMs = 1000
/** Bound of the objects of a kind that are named as left out; further ones are left out without a name. */
const maxLeftOut = 100
/** A kind that is set aside is tried again after this, a fifth less or more: within 90 s it is followed again. ms */
const asideRetryMs = 50_000

const refusals: ReadonlyMap<number, string> = new Map([
  [403, 'agentk may not list and watch it'],
  [404, 'it is not served'],
  [405, 'it cannot be listed'],
])

interface PartOptions extends FollowedKind {
  /** undefined: all namespaces */
  readonly namespace: string | undefined
  readonly times: WatchTimes
  /** called when the state has changed */
  readonly onState: () => void
  /** called when a list has begun: the right to it is there */
  readonly onListing: () => void
}

/** Follows a kind in one namespace, or in all of them at once. */
export class PartWatch implements WatchSink {
  readonly #components: PartWatchComponents
  readonly #options: PartOptions
  #state: PartState
  #leftOut: Names = new Map()
  /** objects that the current list leaves out; undefined: no list is being read */
  #leftOutOfList: Names | undefined
  /** objects were passed on, and not dropped since */
  #hasObjects = false
  /** reason for the next state that is not live */
  #reason = ''
  #isForbidden = false
  #cancelStale: (() => void) | undefined
  readonly #failing: FailingTime
  /** end of the last watch; undefined: there was none, or one is live */
  #lostAt: number | undefined
  /** message of the API server with the last failure */
  #message = ''

  constructor(components: PartWatchComponents, options: PartOptions) {
    this.#components = components
    this.#options = options
    const { clock, live } = components
    this.#failing = new FailingTime({ clock, live, onLong: () => this.#setAside() })
    this.#state = { is: 'syncing', since: components.clock.now(), why: '' }
  }

  get state(): PartState {
    return this.#state
  }

  get isForbidden(): boolean {
    return this.#isForbidden
  }

  get namesLeftOut(): Iterable<{ readonly namespace: string; readonly name: string }> {
    return this.#leftOut.values()
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { api: client, open, refusals, live, onTrouble: _, groups: __, clock, ...components } = this.#components
    const { kind, namespace, isMetadata, times } = this.#options
    const turn = async (until: AbortSignal) => {
      const done = await components.turn?.(until)
      if (this.#state.is !== 'live') this.#failing.begin()
      return done ?? (() => undefined)
    }
    const mostRetryMs = () => (this.#state.is === 'aside' ? asideRetryMs : times.maxRetryMs)
    let giveBack = open.enter(kind.key)
    while (!giveBack && !signal.aborted) {
      this.#set('refused', `more than ${open.limits.max} watches`)
      await pause(times.deniedMs, clock, signal)
      giveBack = open.enter(kind.key)
    }
    const options = { path: this.#path(), pageSize, isMetadata, leavesOut: true, resumes: true, times }
    const untilAllowed = (mostMs: number, until: AbortSignal) => refusals.wait({ kind, namespace }, mostMs, until)
    try {
      const parts = { ...components, client, clock, sink: this, untilAllowed, turn, mostRetryMs }
      await new ObjectWatch(parts, options).run(signal)
    } finally {
      giveBack?.()
      live.delete(this)
      this.#failing.end()
      this.#cancelStale?.()
    }
  }

  listing(): void {
    const { kind, namespace, onListing } = this.#options
    this.#isForbidden = false
    onListing()
    if (this.#state.is !== 'live' && this.#state.is !== 'aside') this.#set('syncing', '')
    this.#hasObjects = true
    this.#leftOutOfList = new Map()
    this.#components.sink.listing(kind, namespace)
  }

  put(object: unknown): void {
    const uid = textAt(object, 'metadata.uid')
    if (uid === '') return
    if (this.#leftOut.delete(uid)) this.#options.onState()
    const { kind, isMetadata } = this.#options
    try {
      if (!this.#isFirst(uid)) return
      this.#components.sink.put(kind, (isMetadata ? asMetadata(object) : object) as KubernetesObject)
    } catch (error) {
      // an object that cannot be kept hides no others
      this.#components.onTrouble(kind.key, error)
      this.leftOut({ uid, namespace: textAt(object, 'metadata.namespace'), name: textAt(object, 'metadata.name') })
    }
  }

  deleted(object: unknown): void {
    const uid = textAt(object, 'metadata.uid')
    if (uid === '') return
    if (this.#leftOut.delete(uid)) this.#options.onState()
    this.#components.sink.deleted(this.#options.kind, uid)
  }

  leftOut({ uid, namespace, name }: { uid: string; namespace: string; name: string }): void {
    const { sink } = this.#components
    const { kind, onState } = this.#options
    for (const names of [this.#leftOut, this.#leftOutOfList]) {
      if (names && names.size < maxLeftOut) names.set(uid, { namespace, name })
    }
    sink.deleted(kind, uid)
    onState()
  }

  listed(): void {
    const { kind, namespace, onState } = this.#options
    this.#leftOut = this.#leftOutOfList ?? this.#leftOut
    this.#leftOutOfList = undefined
    this.#components.sink.listed(kind, namespace)
    onState()
  }

  following(is: boolean): void {
    const { clock, live } = this.#components
    if (is) {
      this.#stopStale()
      this.#reason = ''
      this.#message = ''
      this.#lostAt = undefined
      this.#failing.succeeded()
      live.add(this)
      this.#set('live', '')
      return
    }
    live.delete(this)
    this.#lostAt ??= clock.now()
    if (this.#state.is === 'live' && !this.#cancelStale) {
      const since = this.#lostAt
      this.#cancelStale = clock.after(staleAfterMs, () => {
        this.#cancelStale = undefined
        this.#set('stale', this.#reason || 'its watch has ended', since)
      })
    }
  }

  ended({ status, error, message = '' }: Refusal): void {
    const refusal = refusals.get(status)
    if (refusal !== undefined) this.#refuse(refusal)
    else if (status !== 200 && status !== 410) {
      this.#reason = error ? failureText(error) : `the API server answered ${status}`
      this.#message = message || this.#message
      this.#components.onTrouble(this.#options.kind.key, error ?? new Error(this.#reason))
      if (this.#state.is !== 'live' && this.#state.is !== 'refused') this.#set(this.#state.is, this.#reason)
      this.#failing.failed(this.#lostAt)
    }
    this.#isForbidden = status === 403
    this.#options.onState()
  }

  /** True if the object belongs to this group. If a later group has it, it is deleted there. */
  #isFirst(uid: string): boolean {
    const { groups, sink } = this.#components
    const { group } = this.#options.kind
    const other = groups?.kindOf(uid)
    if (!groups || !other || other.group === group) return true
    if (!groups.comesBefore(group, other.group)) return false
    sink.deleted(other, uid)
    return true
  }

  #refuse(why: string): void {
    const { kind, namespace } = this.#options
    this.#stopStale()
    this.#failing.end()
    this.#leftOut.clear()
    if (this.#hasObjects) this.#components.sink.dropped(kind, namespace)
    this.#hasObjects = false
    this.#set('refused', why)
  }

  #setAside(): void {
    this.#stopStale()
    this.#set('aside', this.#reason)
  }

  #stopStale(): void {
    this.#cancelStale?.()
    this.#cancelStale = undefined
  }

  #set(is: PartState['is'], why: string, since?: number): void {
    const known = this.#state
    const answered = is === 'aside' && this.#message !== '' ? { message: this.#message } : {}
    if (known.is === is && known.why === why && known.message === answered.message) return
    this.#state = {
      is,
      why,
      since: known.is === is ? known.since : (since ?? this.#components.clock.now()),
      ...answered,
    }
    this.#options.onState()
  }

  #path(): string {
    const { kind, namespace, fieldSelector } = this.#options
    return withQuery(collectionPath(kind, namespace), { fieldSelector })
  }
}

type Names = Map<string, { readonly namespace: string; readonly name: string }>

/** Reduces an object to its metadata: the server may not know the media type that asks for this. */
function asMetadata(object: unknown): KubernetesObject {
  return { apiVersion: 'meta.k8s.io/v1', kind: 'PartialObjectMetadata', metadata: at(object, 'metadata') }
}

function failureText(error: unknown): string {
  const isUnreadable = error instanceof SyntaxError || isTooLarge(error)
  return isUnreadable ? 'what the API server answered cannot be read' : 'the API server does not answer'
}

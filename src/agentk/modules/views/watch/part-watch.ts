import { pause } from '../../../../lib/pause.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import type { ResourceKind } from '../../../cluster/api-kinds.ts'
import { isTooLarge, type Refusal } from '../../../cluster/object-list.ts'
import { ObjectWatch, type ObjectWatchComponents, type WatchTimes } from '../../../cluster/object-watch.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'
import { at, type KubernetesObject, textAt } from '../../../health/object.ts'
import type { FollowState, ObjectSink } from '../store/record.ts'
import type { Refusals } from './refusals.ts'

export interface PartWatchComponents extends Omit<ObjectWatchComponents, 'client' | 'sink' | 'untilAllowed'> {
  readonly api: Pick<ApiClient, 'json' | 'send'>
  readonly sink: ObjectSink
  readonly budget: WatchBudget
  readonly refusals: Pick<Refusals, 'wait'>
  /** a kind (`group/Kind`) is not followed as it should be, for the log */
  readonly onTrouble: (kind: string, error: unknown) => void
}

export interface FollowedKind {
  readonly kind: ResourceKind
  /** nothing but the metadata is asked for */
  readonly isMetadata: boolean
  /** of the collection's path; empty: none */
  readonly query: string
}

export interface PartWatchOptions extends FollowedKind {
  /** undefined: all of them */
  readonly namespace: string | undefined
  readonly times: WatchTimes
  /** the state has changed */
  readonly onState: () => void
  /** a list of it has begun: the right to it is there */
  readonly onListing: () => void
}

/** What the state of one watch is; `why` is for people, and names nothing. */
export type PartState = Pick<FollowState, 'is' | 'since' | 'why'>

/** Objects in a page. */
const pageSize = 500
/** A watch that goes on within this time has not been away. ms */
const staleAfterMs = 1000
/** Objects of a kind that are left out and named; more of them are not named. */
export const maxLeftOut = 100

const refusals: ReadonlyMap<number, string> = new Map([
  [403, 'agentk may not list and watch it'],
  [404, 'it is not served'],
  [405, 'it cannot be listed'],
])

/** Watches that may be open: each is a connection. */
export class WatchBudget {
  readonly max: number
  #open = 0

  constructor(max: number) {
    this.max = max
  }

  /** @returns what gives it back; undefined: there is none */
  take(): (() => void) | undefined {
    if (this.#open >= this.max) return undefined
    this.#open += 1
    return () => {
      this.#open -= 1
    }
  }
}

/** Follows a kind in one namespace, or in all of them at once. */
export class PartWatch implements WatchSink {
  readonly #components: PartWatchComponents
  readonly #options: PartWatchOptions
  #state: PartState
  #leftOut: Names = new Map()
  /** of the list that is being read */
  #leftOutOfList: Names | undefined
  /** something has been put, and is not gone */
  #hasObjects = false
  /** of the next state that is not live */
  #why = ''
  #isForbidden = false
  #cancelStale: (() => void) | undefined

  constructor(components: PartWatchComponents, options: PartWatchOptions) {
    this.#components = components
    this.#options = options
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
    const { api: client, budget, refusals, onTrouble: _, clock, ...components } = this.#components
    const { kind, namespace, isMetadata, times } = this.#options
    let giveBack = budget.take()
    while (!giveBack && !signal.aborted) {
      this.#set('refused', `more than ${budget.max} watches`)
      await pause(times.deniedMs, clock, signal)
      giveBack = budget.take()
    }
    const options = { path: this.#path(), pageSize, isMetadata, leavesOut: true, resumes: true, times }
    const untilAllowed = (mostMs: number, until: AbortSignal) => refusals.wait({ kind, namespace }, mostMs, until)
    try {
      await new ObjectWatch({ ...components, client, clock, sink: this, untilAllowed }, options).run(signal)
    } finally {
      giveBack?.()
      this.#cancelStale?.()
    }
  }

  listing(): void {
    const { kind, namespace, onListing } = this.#options
    this.#isForbidden = false
    onListing()
    if (this.#state.is !== 'live') this.#set('syncing', '')
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
      this.#components.sink.put(kind, (isMetadata ? asMetadata(object) : object) as KubernetesObject)
    } catch (error) {
      // one odd object hides no others
      this.#components.onTrouble(kind.key, error)
      this.leftOut({ uid, namespace: textAt(object, 'metadata.namespace'), name: textAt(object, 'metadata.name') })
    }
  }

  gone(object: unknown): void {
    const uid = textAt(object, 'metadata.uid')
    if (uid === '') return
    if (this.#leftOut.delete(uid)) this.#options.onState()
    this.#components.sink.gone(this.#options.kind, uid)
  }

  leftOut({ uid, namespace, name }: { uid: string; namespace: string; name: string }): void {
    const { sink } = this.#components
    const { kind, onState } = this.#options
    for (const names of [this.#leftOut, this.#leftOutOfList]) {
      if (names && names.size < maxLeftOut) names.set(uid, { namespace, name })
    }
    sink.gone(kind, uid)
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
    const { clock } = this.#components
    if (is) {
      this.#stopStale()
      this.#why = ''
      this.#set('live', '')
    } else if (this.#state.is === 'live' && !this.#cancelStale) {
      const since = clock.now()
      this.#cancelStale = clock.after(staleAfterMs, () => {
        this.#cancelStale = undefined
        this.#set('stale', this.#why || 'its watch has ended', since)
      })
    }
  }

  ended({ status, error }: Refusal): void {
    const why = refusals.get(status)
    if (why !== undefined) this.#refuse(why)
    else if (status !== 200 && status !== 410) {
      this.#why = error ? whyFailed(error) : `the API server answered ${status}`
      this.#components.onTrouble(this.#options.kind.key, error ?? new Error(this.#why))
      if (this.#state.is === 'syncing' || this.#state.is === 'stale') this.#set(this.#state.is, this.#why)
    }
    this.#isForbidden = status === 403
    this.#options.onState()
  }

  #refuse(why: string): void {
    const { kind, namespace } = this.#options
    this.#stopStale()
    this.#leftOut.clear()
    if (this.#hasObjects) this.#components.sink.dropped(kind, namespace)
    this.#hasObjects = false
    this.#set('refused', why)
  }

  #stopStale(): void {
    this.#cancelStale?.()
    this.#cancelStale = undefined
  }

  #set(is: PartState['is'], why: string, since?: number): void {
    const known = this.#state
    if (known.is === is && known.why === why) return
    this.#state = { is, why, since: known.is === is ? known.since : (since ?? this.#components.clock.now()) }
    this.#options.onState()
  }

  #path(): string {
    const { kind, namespace, query } = this.#options
    const { group, version, plural } = kind
    const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
    const within = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`
    return `${root}${within}/${plural}${query && `?${query}`}`
  }
}

type Names = Map<string, { readonly namespace: string; readonly name: string }>

/** As the media type asks for, which the server may not know. */
function asMetadata(object: unknown): KubernetesObject {
  return { apiVersion: 'meta.k8s.io/v1', kind: 'PartialObjectMetadata', metadata: at(object, 'metadata') }
}

function whyFailed(error: unknown): string {
  const isUnreadable = error instanceof SyntaxError || isTooLarge(error)
  return isUnreadable ? 'what the API server answered cannot be read' : 'the API server does not answer'
}

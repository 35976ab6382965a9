import { withQuery } from '../../kubernetes/path.ts'
import type { Clock } from '../../lib/clock.ts'
import { Deadline } from '../../lib/deadline.ts'
import { KasError } from '../../lib/errors.ts'
import { pause } from '../../lib/pause.ts'
import type { ApiClient } from './api-client.ts'
import type { ApiLiveness } from './api-liveness.ts'
import type { DutyCycle } from './duty-cycle.ts'
import type { LargeEvent } from './large-event.ts'
import { metadataOnly, ObjectList, type Page, type Refusal } from './object-list.ts'
import type { WatchLists } from './watch-lists.ts'
import { errorCode, followWatch, isEndOfList, type WatchEvent } from './watch-request.ts'
import type { WatchSink } from './watch-sink.ts'

export interface ObjectWatchComponents {
  readonly client: Pick<ApiClient, 'json' | 'send'>
  readonly sink: WatchSink
  readonly clock: Clock
  readonly random: () => number
  /** absent: lists are read page by page */
  readonly watchLists?: WatchLists | undefined
  /** resolves when a list may begin; its result is called when the list has ended */
  readonly turn?: ((signal: AbortSignal) => Promise<() => void>) | undefined
  /** absent: no rests */
  readonly dutyCycle?: DutyCycle | undefined
  /** cuts watches of a server that does not answer; absent: they are cut when they are overdue */
  readonly liveness?: Pick<ApiLiveness, 'onUnanswered'> | undefined
  /** resolves when a refused request may be tried again, after `mostMs` at the latest; absent: after `mostMs` */
  readonly untilAllowed?: ((mostMs: number, signal: AbortSignal) => Promise<void>) | undefined
  /** present limit of the wait after a failure; absent: `maxRetryMs` */
  readonly mostRetryMs?: (() => number) | undefined
}

export interface ObjectWatchOptions {
  /** path of the collection, such as `/apis/apps/v1/deployments`, with or without a query */
  readonly path: string
  /** objects in a page */
  readonly pageSize: number
  /** asks for `metadata` of the objects only */
  readonly isMetadata?: boolean
  /** leaves an object out that is too large; else it fails the list */
  readonly leavesOut?: boolean
  /** a watch that was cut continues from its version; else all objects are listed again */
  readonly resumes?: boolean
  readonly times?: Partial<WatchTimes>
}

/** Times in ms. All but the first two vary by a fifth. */
export interface WatchTimes {
  /** delay after which an overdue watch or list is cut: its server is frozen, or its connection dead */
  readonly graceMs: number
  /** silence after which a watch that should list is given up: its server does not support that */
  readonly stalledMs: number
  /** length of a watch, which another one continues */
  readonly watchMs: number
  /** time after which all objects are listed again, whatever the watches have sent */
  readonly relistMs: number
  /** first pause after a failure, doubled up to `maxRetryMs` */
  readonly firstRetryMs: number
  /** longest pause after a failure */
  readonly maxRetryMs: number
  /** longest pause after a refusal, because the rights may be given by then */
  readonly deniedMs: number
}

export const watchTimes: WatchTimes = {
  graceMs: 15_000,
  stalledMs: 10_000,
  watchMs: 300_000,
  relistMs: 24 * 3600_000,
  firstRetryMs: 1000,
  maxRetryMs: 30_000,
  deniedMs: 300_000,
}

interface Following {
  readonly query: Readonly<Record<string, string | boolean>>
  readonly onOpen: () => void
  readonly onEvent: (event: WatchEvent) => void
  readonly signal: AbortSignal
}

const noTurn = () => Promise.resolve(() => undefined)
/** Statuses that mean: the collection may not be listed, does not exist, or cannot be listed. */
const refusals: ReadonlySet<number> = new Set([403, 404, 405])

/**
 * Lists and then watches all objects of one collection, and passes them to a sink. It keeps no objects. It replaces
 * client-node's informer (doc/decisions/0005 and 0008).
 */
export class ObjectWatch {
  readonly #components: ObjectWatchComponents
  readonly #options: ObjectWatchOptions
  readonly #times: WatchTimes
  /** resourceVersion from which a watch continues; empty: all objects must be listed */
  #version = ''
  #listedAt = 0
  /** time at which the last watch was opened */
  #openedAt = 0
  /** the last watch was cut because the server did not answer */
  #isUnanswered = false
  /** a watch has opened in this round */
  #hasFollowed = false
  /** failed rounds in a row, since a watch last opened */
  #failures = 0
  /** watches that opened and were cut early, whatever failed between them */
  #cuts = 0
  /** the next list goes page by page, because the last one, by a watch, has failed */
  #byPages = false

  constructor(components: ObjectWatchComponents, options: ObjectWatchOptions) {
    this.#components = components
    this.#options = options
    this.#times = { ...watchTimes, ...options.times }
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, sink, random, untilAllowed } = this.#components
    while (!signal.aborted) {
      this.#openedAt = Number.POSITIVE_INFINITY
      this.#hasFollowed = false
      const found = await this.#round(signal).catch((error: unknown): Refusal => ({ status: 0, error }))
      if (signal.aborted) return
      const lastedMs = clock.now() - this.#openedAt
      // a proxy on the way cuts long watches: no failure of the server
      const hasLasted =
        !this.#isUnanswered && lastedMs >= this.#times.maxRetryMs && (found.status === 0 || found.status === 410)
      const outcome = hasLasted ? { status: 410 } : found
      if (!this.#goesOn(found)) this.#version = ''
      sink.ended(outcome)
      const waitMs = jittered(this.#waitAfter(outcome.status, lastedMs, hasLasted), random)
      if (untilAllowed && refusals.has(outcome.status)) await untilAllowed(waitMs, signal)
      else if (waitMs > 0) await pause(waitMs, clock, signal)
    }
  }

  #waitAfter(status: number, lastedMs: number, hasLasted: boolean): number {
    const { firstRetryMs, maxRetryMs, deniedMs } = this.#times
    if (refusals.has(status)) return deniedMs
    if (status === 200 || hasLasted) {
      this.#failures = this.#cuts = 0
      return lastedMs < firstRetryMs ? firstRetryMs : 0
    }
    const mostMs = this.#components.mostRetryMs?.() ?? maxRetryMs
    if (this.#hasFollowed) this.#failures = this.#cuts++
    return Math.min(firstRetryMs * 2 ** this.#failures++, mostMs)
  }

  /** True if the next watch may begin where this one has ended. */
  #goesOn({ status, error, isFromEvent }: Refusal): boolean {
    if (status === 200) return true
    if (!this.#options.resumes || isFromEvent || error instanceof SyntaxError) return false
    return status === 0 || status === 401 || status === 429 || status >= 500
  }

  /** Runs one watch, after a list if one is due. */
  async #round(signal: AbortSignal): Promise<Refusal> {
    const { clock, turn = noTurn, watchLists } = this.#components
    if (this.#version && clock.now() - this.#listedAt < this.#times.relistMs) return await this.#watch(signal)
    this.#version = ''
    const done = await turn(signal)
    try {
      if (watchLists?.isOffered && !this.#byPages) {
        const outcome = await this.#watchFromList(watchLists, done, signal)
        if (outcome) return outcome
      }
      const listed = await this.#list(signal)
      if (listed.status !== 200) return listed
    } finally {
      done()
    }
    return await this.#watch(signal)
  }

  async #list(signal: AbortSignal): Promise<Refusal> {
    const { client, sink } = this.#components
    const { path, pageSize, isMetadata, leavesOut } = this.#options
    const accept = isMetadata ? metadataOnly.list : undefined
    const list = new ObjectList(client, { path, pageSize, accept, timeoutMs: this.#times.graceMs })
    for (let isFirst = true; ; isFirst = false) {
      let page = await list.page(signal)
      const isLarge = leavesOut && 'count' in page
      if (isLarge) page = await list.skip(signal)
      if (!('items' in page)) return page
      if (isFirst) sink.listing()
      if (isLarge) for (const item of page.items) sink.leftOut(placeOf(item))
      else await this.#put(page, signal)
      if (!page.isLast) continue
      this.#listed(page.version)
      return { status: 200 }
    }
  }

  async #put({ items }: Page, signal: AbortSignal): Promise<void> {
    const { sink, clock, dutyCycle } = this.#components
    for (const item of items) {
      signal.throwIfAborted()
      const since = clock.now()
      sink.put(item)
      const restMs = dutyCycle?.worked(since) ?? 0
      if (restMs > 0) await pause(restMs, clock, signal)
    }
  }

  #listed(version: string): void {
    this.#version = version
    this.#listedAt = this.#components.clock.now()
    this.#byPages = false
    this.#components.sink.listed()
  }

  #following(): void {
    this.#hasFollowed = true
    this.#components.sink.following(true)
  }

  #watch(signal: AbortSignal): Promise<Refusal> {
    const onOpen = () => this.#following()
    return this.#follow({ query: { resourceVersion: this.#version }, onOpen, onEvent: () => undefined, signal })
  }

  /**
   * Runs a watch that begins with all objects that exist (WatchList).
   *
   * @returns undefined: the server does not support that, or did not reach the end of the list
   */
  async #watchFromList(watchLists: WatchLists, done: () => void, signal: AbortSignal): Promise<Refusal | undefined> {
    const { clock, sink } = this.#components
    const silence = new Deadline({ ms: this.#times.stalledMs, clock, signals: [signal], reason: overdue })
    let isListed = false
    const onEvent = (event: WatchEvent) => {
      if (isListed) return
      isListed = event.type === 'BOOKMARK' && isEndOfList(event.object)
      if (!isListed) {
        silence.restart()
        return
      }
      silence.lift()
      this.#listed(this.#version)
      this.#following()
      done()
    }
    let isOpen = false
    const onOpen = () => {
      isOpen = true
      sink.listing()
    }
    const query = { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan' }
    this.#byPages = true
    try {
      const outcome = await this.#follow({ query, onOpen, onEvent, signal: silence.signal })
      const { status } = outcome
      if (refusals.has(status)) this.#byPages = false
      if (isListed || ![200, 400, 422].includes(status)) return outcome
      if (status !== 200) watchLists.refused()
      return undefined
    } catch (error) {
      if (!silence.isPast || signal.aborted) throw error
      if (isOpen) watchLists.refused()
      return undefined
    } finally {
      silence.end()
      if (!isListed) this.#version = '' // the events so far are in no order
    }
  }

  /** @returns 200: the watch has ended by itself; 410: it cannot continue from there */
  async #follow({ query, onOpen, onEvent, signal }: Following): Promise<Refusal> {
    const { client, sink, clock, random, dutyCycle, liveness } = this.#components
    const { path, isMetadata, leavesOut } = this.#options
    const lastMs = jittered(this.#times.watchMs, random)
    const seconds = Math.max(1, Math.round(lastMs / 1000))
    const common = { watch: 1, allowWatchBookmarks: true, timeoutSeconds: seconds }
    const ending = new Deadline({ ms: lastMs + this.#times.graceMs, clock, signals: [signal], reason: overdue })
    this.#isUnanswered = false
    const forget = liveness?.onUnanswered(() => {
      this.#isUnanswered = true
      ending.abort(overdue())
    })
    let status = 200
    this.#openedAt = clock.now()
    try {
      const head = await followWatch(client, {
        path: withQuery(path, { ...common, ...query }),
        accept: isMetadata ? metadataOnly.object : undefined,
        signal: ending.signal,
        onOpen,
        onEvent: (event) => {
          status = event.type === 'ERROR' ? errorCode(event.object) : 200
          if (status !== 200) return false
          this.#apply(event)
          onEvent(event)
          return true
        },
        onLarge: leavesOut ? (event) => this.#leaveOut(event) : undefined,
        rests: dutyCycle && { dutyCycle, clock },
      })
      return status === 200 ? { status: head } : { status, isFromEvent: true }
    } finally {
      ending.end()
      forget?.()
      sink.following(false)
    }
  }

  #apply({ type, object }: WatchEvent): void {
    const { sink } = this.#components
    this.#version = (object as { metadata?: { resourceVersion?: string } }).metadata?.resourceVersion ?? this.#version
    if (type === 'DELETED') sink.deleted(object)
    else if (type !== 'BOOKMARK') sink.put(object)
  }

  #leaveOut({ type, ...metadata }: LargeEvent): void {
    const { sink } = this.#components
    if (type === 'DELETED') sink.deleted({ metadata })
    else sink.leftOut(metadata)
  }
}

/** Varies a time by up to a fifth. */
function jittered(ms: number, random: () => number): number {
  return ms * (0.8 + 0.4 * random())
}

function placeOf(item: unknown): Omit<LargeEvent, 'type'> {
  const { metadata } = item as { metadata?: Partial<LargeEvent> }
  return { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '', uid: metadata?.uid ?? '' }
}

function overdue(): KasError {
  return new KasError({ code: 'DEADLINE_EXCEEDED' })
}

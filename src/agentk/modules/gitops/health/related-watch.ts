import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { ObjectWatch } from '../../../cluster/object-watch.ts'
import type { WatchSink } from '../../../cluster/watch-sink.ts'

/** objects in a page */
const pageSize = 100
/** A kind that may not be watched is listed again after this at most. ms */
const listAgainMs = 10_000
/** Pauses of a watch vary by a fifth. */
const pauseMs = listAgainMs / 1.2
/**
 * Pauses after a list before all objects are listed once more. `wanted`: some that were not kept are asked for. `cut`:
 * there was no room for all of them. ms
 */
const relistMs = { wanted: 60_000, cut: 300_000 }
/** Statuses of a collection that may not be read, does not exist, or cannot be watched. */
const refusals: ReadonlySet<number> = new Set([403, 404, 405])

/** Receives the objects of one kind. */
export interface RelatedSink {
  put(object: KubernetesObject): void
  deleted(object: KubernetesObject): void
  listing(): void
  listed(): void
  /** They may not be listed. */
  refused(): void
  /** One of them is too large to be read. */
  leftOut(): void
  /** @param text - why they cannot be read, or not watched; undefined: they are watched */
  trouble(text: string | undefined): void
}

export interface RelatedWatchComponents {
  /** acts as the source's account */
  readonly client: Pick<ApiClient, 'json' | 'send'>
  readonly clock: Clock
  readonly random: () => number
}

/** Watches one collection, or lists it again and again where it may not be watched, until the signal aborts. */
export class RelatedWatch {
  readonly #components: RelatedWatchComponents
  readonly #path: string
  readonly #sink: RelatedSink
  readonly #signal: AbortSignal
  #running = new AbortController()
  #begunAt = 0
  #isListed = false
  #relist: { readonly at: number; readonly cancel: () => void } | undefined

  constructor(components: RelatedWatchComponents, path: string, sink: RelatedSink, signal: AbortSignal) {
    this.#components = components
    this.#path = path
    this.#sink = sink
    this.#signal = signal
    signal.addEventListener('abort', () => this.#relist?.cancel(), { once: true })
    this.#begin()
  }

  /** Lists all objects once more, once for all calls until then. */
  relist(reason: keyof typeof relistMs): void {
    const { clock } = this.#components
    const pauseMs = relistMs[reason]
    const at = this.#begunAt + pauseMs
    if (this.#relist && this.#relist.at <= at) return
    this.#relist?.cancel()
    const waitMs = Math.min(pauseMs, Math.max(0, at - clock.now())) // the clock may have been set back
    this.#relist = { at, cancel: clock.after(waitMs, () => this.#begin()) }
  }

  #begin(): void {
    this.#running.abort(new KasError({ code: 'CANCELLED', detail: 'all objects are listed once more' }))
    this.#running = new AbortController()
    const { client, clock, random } = this.#components
    this.#begunAt = clock.now()
    this.#relist?.cancel()
    this.#relist = undefined
    const options = { path: this.#path, pageSize, leavesOut: true, resumes: true, times: { deniedMs: pauseMs } }
    const watch = new ObjectWatch({ client, sink: this.#watchSink(), clock, random }, options)
    void watch.run(AbortSignal.any([this.#signal, this.#running.signal]))
  }

  #watchSink(): WatchSink {
    const sink = this.#sink
    return {
      put: (object) => sink.put(object as KubernetesObject),
      deleted: (object) => sink.deleted(object as KubernetesObject),
      listing: () => sink.listing(),
      listed: () => {
        this.#isListed = true
        sink.listed()
      },
      following: (is) => {
        if (is) sink.trouble(undefined)
      },
      ended: ({ status }) => this.#ended(status),
      leftOut: () => sink.leftOut(),
    }
  }

  #ended(status: number): void {
    if (!refusals.has(status)) return
    if (!this.#isListed) this.#sink.refused()
    const often = `every ${listAgainMs / 1000} s`
    const text = this.#isListed ? `read ${often}: agentk may not watch them` : 'agentk may not list them'
    this.#sink.trouble(`${text} (${status})`)
    this.#isListed = false
  }
}

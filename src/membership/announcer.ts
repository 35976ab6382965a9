import type { Clock } from '../lib/clock.ts'
import type { MembershipMetrics } from './metrics.ts'
import type { OwnRow } from './own-row.ts'
import { encodeNews, type News } from './row-codec.ts'
import type { MembershipTimers } from './timers.ts'

/** A larger delta is published as a beat, and fetched as a row. gossipsub drops what is over 4 MiB without a word. */
export const maxNewsBytes = 256 * 1024

export interface AnnouncerComponents {
  readonly clock: Clock
  readonly own: OwnRow
  readonly metrics: MembershipMetrics
  publish(news: Uint8Array): void
}

/** Tells the others of changes of the own row, gathered; and of its version when there are none. */
export class Announcer {
  readonly #components: AnnouncerComponents
  readonly #timers: MembershipTimers
  #batch: (() => void) | undefined
  #silence: (() => void) | undefined
  #running = false

  constructor(components: AnnouncerComponents, timers: MembershipTimers) {
    this.#components = components
    this.#timers = timers
  }

  start(): void {
    this.#running = true
    this.#beatAfterSilence()
  }

  /** Publishes within the time of a batch: what changed, else a beat. */
  soon(): void {
    if (!this.#running) return
    this.#batch ??= this.#components.clock.after(this.#timers.batchMs, () => this.now())
  }

  now(): void {
    this.#batch?.()
    this.#batch = undefined
    if (!this.#running) return
    const { own } = this.#components
    const delta = own.takeDelta()
    const bytes = delta && encodeNews(own.instance, { kind: 'delta', delta })
    if (bytes && bytes.length <= maxNewsBytes) this.#publish('delta', bytes)
    else this.#tell({ kind: 'beat', version: own.version })
  }

  /** Says that this instance is gone, and then nothing more. */
  stop(): void {
    if (!this.#running) return
    this.#running = false
    this.#batch?.()
    this.#silence?.()
    this.#tell({ kind: 'farewell' })
  }

  #tell(news: News): void {
    this.#publish(news.kind, encodeNews(this.#components.own.instance, news))
  }

  #publish(kind: News['kind'], bytes: Uint8Array): void {
    this.#components.metrics.published(kind)
    this.#components.publish(bytes)
    if (this.#running) this.#beatAfterSilence()
  }

  #beatAfterSilence(): void {
    this.#silence?.()
    this.#silence = this.#components.clock.after(this.#timers.beatMs, () => this.now())
  }
}

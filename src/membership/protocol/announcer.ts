import type { Clock } from '../../lib/clock.ts'
import type { OwnRow } from '../table/own-row.ts'
import { encodeNews, type News } from '../table/row-codec.ts'
import type { MembershipMetrics } from './observer.ts'
import type { MembershipTimers } from './timers.ts'

/** More is refused. gossipsub drops what is over 4 MiB without a word. */
export const maxNewsBytes = 256 * 1024
/** of entries in one delta: the rest of the news, with the longest head, takes less than what is left */
const maxDeltaBytes = maxNewsBytes - 8 * 1024
/** What is left waits for the next batch: 20 of them a second stay below `maxNewsPerLook`. */
const maxDeltasPerBatch = 8

export interface AnnouncerComponents {
  readonly clock: Clock
  readonly own: OwnRow
  readonly metrics: MembershipMetrics
  /** brings into the own row what should be published with it */
  gather(): void
  publish(news: Uint8Array): void
}

/** Tells the others of changes of the own row, gathered; and of its version when there are none. */
export class Announcer {
  readonly #components: AnnouncerComponents
  readonly #timers: MembershipTimers
  #batch: (() => void) | undefined
  #silence: (() => void) | undefined
  #running = false
  /** somebody waits for the version, changed or not */
  #asked = false

  constructor(components: AnnouncerComponents, timers: MembershipTimers) {
    this.#components = components
    this.#timers = timers
  }

  start(): void {
    this.#running = true
    this.#beatAfterSilence()
  }

  /** Publishes what has changed, within the time of a batch. */
  soon(): void {
    if (!this.#running) return
    this.#batch ??= this.#components.clock.after(this.#timers.batchMs, () => this.#publish())
  }

  /** As `soon`, and a beat if nothing has changed. */
  versionSoon(): void {
    this.#asked = true
    this.soon()
  }

  /** Publishes what has changed, else a beat. */
  now(): void {
    this.#asked = true
    this.#publish()
  }

  #publish(): void {
    this.#batch?.()
    this.#batch = undefined
    if (!this.#running) return
    const { own, gather } = this.#components
    gather()
    if (!own.changed && this.#asked) this.#tell({ kind: 'beat', version: own.version })
    this.#asked = false
    for (let deltas = 0; deltas < maxDeltasPerBatch; deltas++) {
      const delta = own.takeDelta(maxDeltaBytes)
      if (!delta) return
      this.#tell({ kind: 'delta', delta })
    }
    if (own.changed) this.soon()
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
    const { metrics, own, publish } = this.#components
    metrics.published(news.kind)
    publish(encodeNews(own.instance, news))
    if (this.#running) this.#beatAfterSilence()
  }

  #beatAfterSilence(): void {
    this.#silence?.()
    this.#silence = this.#components.clock.after(this.#timers.beatMs, () => this.now())
  }
}

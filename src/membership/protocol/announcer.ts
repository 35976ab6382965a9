import type { Clock } from '../../lib/clock.ts'
import type { OwnRow } from '../table/own-row.ts'
import { encodeGossip, type GossipMessage } from '../table/row-codec.ts'
import type { MembershipMetrics } from './observer.ts'
import type { MembershipTimers } from './timers.ts'

/** Bound of a message. gossipsub drops messages above 4 MiB without a report. */
export const maxMessageBytes = 256 * 1024
/** bound of the items in one delta: the rest of the message, with the longest head, fits in the difference */
const maxDeltaBytes = maxMessageBytes - 8 * 1024
/**
 * Bound of deltas in a batch; the rest waits for the next one. 20 batches a second stay below `maxMessagesPerCheck`.
 */
const maxDeltasPerBatch = 8

export interface AnnouncerComponents {
  readonly clock: Clock
  readonly own: OwnRow
  readonly metrics: MembershipMetrics
  /** adds data to the own row that is to be published with it */
  gather(): void
  publish(message: Uint8Array): void
}

/** Publishes changes of the own row in batches, and its version as a heartbeat while there are none. */
export class Announcer {
  readonly #components: AnnouncerComponents
  readonly #timers: MembershipTimers
  #batch: (() => void) | undefined
  #silence: (() => void) | undefined
  #running = false
  /** true: the version is to be published, changed or not */
  #asked = false

  constructor(components: AnnouncerComponents, timers: MembershipTimers) {
    this.#components = components
    this.#timers = timers
  }

  start(): void {
    this.#running = true
    this.#heartbeatAfterSilence()
  }

  /** Publishes changes, within the time of a batch. */
  soon(): void {
    if (!this.#running) return
    this.#batch ??= this.#components.clock.after(this.#timers.batchMs, () => this.#publish())
  }

  /** As `soon`, and publishes a heartbeat if nothing has changed. */
  versionSoon(): void {
    this.#asked = true
    this.soon()
  }

  /** Publishes changes at once, else a heartbeat. */
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
    if (!own.changed && this.#asked) this.#send({ kind: 'heartbeat', version: own.version })
    this.#asked = false
    for (let deltas = 0; deltas < maxDeltasPerBatch; deltas++) {
      const delta = own.takeDelta(maxDeltaBytes)
      if (!delta) return
      this.#send({ kind: 'delta', delta })
    }
    if (own.changed) this.soon()
  }

  /** Publishes a farewell, and nothing after it. */
  stop(): void {
    if (!this.#running) return
    this.#running = false
    this.#batch?.()
    this.#silence?.()
    this.#send({ kind: 'farewell' })
  }

  #send(message: GossipMessage): void {
    const { metrics, own, publish } = this.#components
    metrics.published(message.kind)
    publish(encodeGossip(own.instance, message))
    if (this.#running) this.#heartbeatAfterSilence()
  }

  #heartbeatAfterSilence(): void {
    this.#silence?.()
    this.#silence = this.#components.clock.after(this.#timers.heartbeatMs, () => this.now())
  }
}

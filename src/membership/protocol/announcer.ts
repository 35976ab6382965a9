import type { Clock } from '../../lib/clock.ts'
import type { OwnRow } from '../table/own-row.ts'
import { encodeGossip, type GossipMessage } from '../table/row-codec.ts'
import type { MembershipMetrics } from './observer.ts'
import type { MembershipTimers } from './timers.ts'

/** More is refused. gossipsub drops what is over 4 MiB without a word. */
export const maxMessageBytes = 256 * 1024
/** of items in one delta: the rest of the message, with the longest head, takes less than what is left */
const maxDeltaBytes = maxMessageBytes - 8 * 1024
/** What is left waits for the next batch: 20 of them a second stay below `maxMessagesPerCheck`. */
const maxDeltasPerBatch = 8

export interface AnnouncerComponents {
  readonly clock: Clock
  readonly own: OwnRow
  readonly metrics: MembershipMetrics
  /** brings into the own row what should be published with it */
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
  /** somebody waits for the version, changed or not */
  #asked = false

  constructor(components: AnnouncerComponents, timers: MembershipTimers) {
    this.#components = components
    this.#timers = timers
  }

  start(): void {
    this.#running = true
    this.#heartbeatAfterSilence()
  }

  /** Publishes what has changed, within the time of a batch. */
  soon(): void {
    if (!this.#running) return
    this.#batch ??= this.#components.clock.after(this.#timers.batchMs, () => this.#publish())
  }

  /** As `soon`, and a heartbeat if nothing has changed. */
  versionSoon(): void {
    this.#asked = true
    this.soon()
  }

  /** Publishes what has changed, else a heartbeat. */
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

  /** Publishes the farewell, and nothing after it. */
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

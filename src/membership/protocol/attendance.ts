import type { Clock } from '../../lib/clock.ts'
import { Counter } from '../../lib/counter.ts'
import type { InstanceId } from '../table/row.ts'
import type { MembershipTimers } from './timers.ts'

/**
 * Checks until an instance counts as dead. Silence is counted in checks, so that a stall of this process counts as one.
 */
const checksPerSilence = 10
/** missed checks before the row is pulled, which also shows whether its owner lives */
const checksBeforePull = 6

/**
 * Bound of messages of one author between two checks, which are 1 s apart: an honest replica publishes 20 deltas a
 * second and some heartbeats.
 */
export const maxMessagesPerCheck = 200
/** number of messages that is a flood: the author's connection is cut */
export const floodMessagesPerCheck = 2000

export interface AttendanceComponents {
  readonly clock: Clock
  /** called if nothing has come from the instance for some checks */
  suspect(instance: InstanceId): void
  /** called if nothing has come from the instance for `silenceMs` */
  dead(instance: InstanceId): void
}

interface Presence {
  missedChecks: number
}

/** Watches connected instances: each must send something, but not too much. */
export class Attendance {
  readonly #components: AttendanceComponents
  readonly #checkMs: number
  readonly #present = new Map<InstanceId, Presence>()
  /** messages since the last check */
  readonly #messages = new Counter<InstanceId>()
  #cancel: (() => void) | undefined

  constructor(components: AttendanceComponents, timers: MembershipTimers) {
    this.#components = components
    this.#checkMs = timers.silenceMs / checksPerSilence
  }

  start(): void {
    this.#cancel = this.#components.clock.after(this.#checkMs, () => {
      this.start()
      this.#countSilence()
    })
  }

  stop(): void {
    this.#cancel?.()
    this.#present.clear()
  }

  has(instance: InstanceId): boolean {
    return this.#present.has(instance)
  }

  connected(instance: InstanceId): void {
    this.#present.set(instance, { missedChecks: 0 })
  }

  disconnected(instance: InstanceId): boolean {
    return this.#present.delete(instance)
  }

  received(instance: InstanceId): void {
    const presence = this.#present.get(instance)
    if (presence) presence.missedChecks = 0
  }

  /**
   * Counts one message.
   *
   * @returns `fine` if it is within the bounds
   */
  count(author: InstanceId): 'fine' | 'many' | 'flood' {
    const count = this.#messages.add(author)
    if (count <= maxMessagesPerCheck) return 'fine'
    return count === floodMessagesPerCheck ? 'flood' : 'many'
  }

  #countSilence(): void {
    this.#messages.clear()
    for (const [instance, presence] of [...this.#present]) {
      presence.missedChecks++
      if (presence.missedChecks === checksBeforePull) this.#components.suspect(instance)
      if (presence.missedChecks >= checksPerSilence) this.#components.dead(instance)
    }
  }
}

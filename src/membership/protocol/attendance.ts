import type { Clock } from '../../lib/clock.ts'
import type { InstanceId } from '../table/row.ts'
import type { MembershipTimers } from './timers.ts'

/** looks a silence: counted in looks, so that a stall of our own counts as one */
const looksPerSilence = 10
/** quiet looks before the row is asked of its owner, which is also a question whether it lives */
const looksBeforeQuestion = 6

/**
 * News of one author between two looks that are read, at 1 s a look: an honest replica publishes 20 deltas a second
 * and some beats.
 */
export const maxNewsPerLook = 200
/** as many make it a flood: the author's connection is cut */
export const floodNewsPerLook = 2000

export interface AttendanceComponents {
  readonly clock: Clock
  quiet(instance: InstanceId): void
  silent(instance: InstanceId): void
}

interface Presence {
  quietLooks: number
}

/** Which of the connected instances are heard, and whether one says too much. */
export class Attendance {
  readonly #components: AttendanceComponents
  readonly #lookMs: number
  readonly #present = new Map<InstanceId, Presence>()
  #newsOf = new Map<InstanceId, number>()
  #cancel: (() => void) | undefined

  constructor(components: AttendanceComponents, timers: MembershipTimers) {
    this.#components = components
    this.#lookMs = timers.silenceMs / looksPerSilence
  }

  start(): void {
    this.#cancel = this.#components.clock.after(this.#lookMs, () => {
      this.start()
      this.#look()
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
    this.#present.set(instance, { quietLooks: 0 })
  }

  disconnected(instance: InstanceId): boolean {
    return this.#present.delete(instance)
  }

  heard(instance: InstanceId): void {
    const presence = this.#present.get(instance)
    if (presence) presence.quietLooks = 0
  }

  /** Counts one message. @returns whether it is too many */
  count(author: InstanceId): 'fine' | 'many' | 'flood' {
    const count = (this.#newsOf.get(author) ?? 0) + 1
    this.#newsOf.set(author, count)
    if (count <= maxNewsPerLook) return 'fine'
    return count === floodNewsPerLook ? 'flood' : 'many'
  }

  #look(): void {
    this.#newsOf = new Map()
    for (const [instance, presence] of [...this.#present]) {
      presence.quietLooks++
      if (presence.quietLooks === looksBeforeQuestion) this.#components.quiet(instance)
      if (presence.quietLooks >= looksPerSilence) this.#components.silent(instance)
    }
  }
}

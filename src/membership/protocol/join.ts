import type { Clock } from '../../lib/clock.ts'
import type { DiscoverySource } from '../discovery/source.ts'
import type { MembershipTimers } from './timers.ts'

export interface JoinComponents {
  readonly clock: Clock
  readonly sources: readonly DiscoverySource[]
  /** number of listed addresses whose instance is not known yet */
  unknownAddresses(): number
  /** number of connected instances that have not sent their row */
  missingRows(): number
  /** called with sources that have not answered in time; the join goes on without them */
  sourcesUnanswered(names: readonly string[]): void
}

/**
 * The first moments of a replica. Without the rows of the members that it can reach, it would report connected agents
 * as not connected.
 */
export class Join {
  readonly #components: JoinComponents
  readonly #timers: MembershipTimers
  readonly #done = Promise.withResolvers<void>()
  #phase: 'sources' | 'members' | 'ended' = 'sources'
  #cancel: (() => void) | undefined

  constructor(components: JoinComponents, timers: MembershipTimers) {
    this.#components = components
    this.#timers = timers
  }

  /** Resolves once the replica may serve; also if it is stopped. */
  get done(): Promise<void> {
    return this.#done.promise
  }

  start(): void {
    this.#cancel = this.#components.clock.after(this.#timers.sourcePatienceMs, () => {
      this.#components.sourcesUnanswered(this.#unanswered())
      this.#awaitMembers()
    })
    this.update()
  }

  stop(): void {
    this.#end()
  }

  /** Notes an event: a source's answer, a member, a row. */
  update(): void {
    if (this.#phase === 'sources' && this.#cancel && this.#unanswered().length === 0) this.#awaitMembers()
    if (this.#phase === 'members' && this.reason() === undefined) this.#end()
  }

  /** Returns the reason of the wait, for the operator; undefined: it is over. */
  reason(): string | undefined {
    const { unknownAddresses, missingRows } = this.#components
    if (this.#phase === 'ended') return undefined
    if (this.#phase === 'sources') return `joining: no answer yet from discovery by ${this.#unanswered().join(', ')}`
    if (unknownAddresses() > 0) return `joining: ${unknownAddresses()} listed addresses have not been reached yet`
    if (missingRows() > 0) return `joining: ${missingRows()} replicas have not said yet what they hold`
    return undefined
  }

  #unanswered(): readonly string[] {
    return this.#components.sources.filter((source) => !source.current().answered).map(({ name }) => name)
  }

  #awaitMembers(): void {
    this.#phase = 'members'
    this.#cancel?.()
    this.#cancel = this.#components.clock.after(this.#timers.joinMs, () => this.#end())
    this.update()
  }

  #end(): void {
    this.#cancel?.()
    this.#phase = 'ended'
    this.#done.resolve()
  }
}

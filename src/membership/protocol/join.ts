import type { Clock } from '../../lib/clock.ts'
import type { DiscoverySource } from '../discovery/source.ts'
import type { MembershipTimers } from './timers.ts'

export interface JoinComponents {
  readonly clock: Clock
  readonly sources: readonly DiscoverySource[]
  /** listed addresses of which it is not known yet who is there */
  unknownAddresses(): number
  /** connected instances that have not given their row */
  missingRows(): number
  /** these sources have not answered in time; it goes on without them */
  sourcesUnanswered(names: readonly string[]): void
}

/**
 * The first moments of a replica: until it has seen the rows of the members that it can reach, it would say "not
 * connected" out of ignorance.
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

  /** Resolves once the replica may serve; also when it is stopped. */
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

  /** Something came: a source's answer, a member, a row. */
  update(): void {
    if (this.#phase === 'sources' && this.#cancel && this.#unanswered().length === 0) this.#awaitMembers()
    if (this.#phase === 'members' && this.reason() === undefined) this.#end()
  }

  /** What it waits for, for the operator. */
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

import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Listeners } from '../../../../lib/listeners.ts'
import type { ListTrouble } from '../../../health/kas/around.ts'
import type { FollowState, FollowStates } from './record.ts'

/**
 * After this time, agentk no longer waits for a kind that is never listed: findings count from when they are found. ms
 */
const firstListMs = 60_000

export interface KindStatesComponents {
  readonly clock: Clock
  /** called when a kind (`group/Kind`) becomes fully known, or is no longer, or is set aside for another reason */
  readonly onLive: (kind: string) => void
}

/** State of each kind that is followed. A kind that was dropped for want of room is refused. */
export class KindStates implements FollowStates {
  readonly #components: KindStatesComponents
  readonly #since: number
  readonly #refusal: string
  readonly #states = new Map<string, readonly [kind: ResourceKind, state: FollowState]>()
  /** kinds that were dropped for want of room, and when */
  readonly #refused = new Map<string, { readonly kind: ResourceKind; readonly since: number }>()
  readonly #listeners = new Listeners()
  /** kinds whose objects are all known */
  #whole: ReadonlySet<string> = new Set()
  /** reasons why kinds are set aside, by `group/Kind` */
  #troubles: ReadonlyMap<string, ListTrouble> = new Map()
  #isSettled = false

  /** @param refusal - reason why a kind was dropped for want of room */
  constructor(components: KindStatesComponents, refusal: string) {
    this.#components = components
    this.#refusal = refusal
    this.#since = components.clock.now()
  }

  all(): Iterable<readonly [kind: ResourceKind, state: FollowState]> {
    const states = new Map(this.#states)
    for (const [key, { kind, since }] of this.#refused) {
      const { refusedNamespaces = [], leftOut = [] } = states.get(key)?.[1] ?? {}
      states.set(key, [kind, { is: 'refused', since, why: this.#refusal, refusedNamespaces, leftOut }])
    }
    return states.values()
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  kindOf(key: string): ResourceKind | undefined {
    return this.#states.get(key)?.[0]
  }

  /** True if all objects of the kind are known. */
  isWhole(key: string): boolean {
    return this.#whole.has(key)
  }

  /** Reason why a kind is set aside; undefined: it is not. */
  troubleOf(key: string): ListTrouble | undefined {
    return this.#troubles.get(key)
  }

  /** True if an object of the kind that comes now is new. */
  isLive(key: string): boolean {
    return this.isSettled && this.#states.get(key)?.[1].is === 'live'
  }

  /** True once all objects from the beginning are known, apart from those of a kind that is never listed. */
  get isSettled(): boolean {
    this.#isSettled ||= this.#components.clock.now() > this.#since + firstListMs
    return this.#isSettled
  }

  isRefused(key: string): boolean {
    return this.#refused.has(key)
  }

  set(kind: ResourceKind, state: FollowState): void {
    this.#states.set(kind.key, [kind, state])
    this.#notify()
  }

  delete(key: string): void {
    this.#refused.delete(key)
    if (this.#states.delete(key)) this.#notify()
  }

  /** Refuses a kind for want of room. */
  refuse(kind: ResourceKind): void {
    this.#refused.set(kind.key, { kind, since: this.#components.clock.now() })
    this.#notify()
  }

  /** Accepts a kind again: there is room. */
  readmit(key: string): void {
    if (this.#refused.delete(key)) this.#notify()
  }

  #notify(): void {
    const before = this.#whole
    this.#whole = new Set([...this.all()].flatMap(([{ key }, state]) => (isWholly(state) ? [key] : [])))
    const changed = this.#whole.symmetricDifference(before)
    const troubles = this.#troubles
    this.#troubles = new Map([...this.#states.values()].flatMap(troubled))
    for (const [key, { text }] of [...this.#troubles, ...troubles]) {
      if (this.#troubles.get(key)?.text !== text || troubles.get(key)?.text !== text) changed.add(key)
    }
    for (const kind of changed) this.#components.onLive(kind)
    this.#isSettled ||= this.#states.size > 0 && [...this.#states.values()].every(([, { is }]) => is !== 'syncing')
    this.#listeners.notify()
  }
}

function troubled([{ key }, { is, since, why, message }]: readonly [ResourceKind, FollowState]): [
  string,
  ListTrouble,
][] {
  return is === 'aside' ? [[key, { since, text: message || why }]] : []
}

/** True if all objects of the kind are known: none is left out or refused. */
function isWholly({ is, isPartial, refusedNamespaces, leftOut }: FollowState): boolean {
  return is === 'live' && !isPartial && refusedNamespaces.length === 0 && leftOut.length === 0
}

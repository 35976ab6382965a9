import type { Clock } from '../../lib/clock.ts'
import { Deadline } from '../../lib/deadline.ts'
import type { InstanceId } from '../table/row.ts'
import type { MembershipTimers } from './timers.ts'

/** bound of running dials */
const maxDials = 32

/** `failed`: no instance with the secret is there, or it did not answer in time */
export type DialResult =
  | { readonly kind: 'member'; readonly instance: InstanceId }
  | { readonly kind: 'self' }
  | { readonly kind: 'refused' }
  | { readonly kind: 'failed'; readonly error: unknown }

export interface ReconcilerComponents {
  readonly clock: Clock
  /** 0 to 1 */
  random(): number
  dial(address: string, signal: AbortSignal): Promise<DialResult>
  /** true: `address` is known to be this replica's own, without a dial */
  isSelf(address: string): boolean
  isConnected(instance: InstanceId): boolean
  /**
   * returns the instance whose connection comes from the host of `address` and that listens at its port; undefined:
   * none
   */
  whoIsAt(address: string): InstanceId | undefined
  /** called if no instance is found at the instance's address any more */
  lost(instance: InstanceId): void
  /** called after a dial */
  dialled(address: string, result: DialResult): void
}

/** An address that discovery lists, and where no replica with the secret answers. */
export interface UnansweredAddress {
  readonly address: string
  /** failed dials in a row: a replica that starts, or is busy, may miss the first */
  readonly dials: number
  /** reason of the last failure */
  readonly reason: string
}

interface Place {
  /** the last instance at this address */
  instance: InstanceId | undefined
  self: boolean
  /** of the last dial; undefined: there was none */
  result: DialResult['kind'] | undefined
  /** dials that failed since an instance was last there, and the last reason */
  failures: { readonly dials: number; readonly reason: string } | undefined
  dial: Deadline | undefined
}

/**
 * Compares listed addresses with connected instances, and dials those that are missing: at each change, and every
 * `reconcileMs`. The redials of libp2p itself give up after some tries.
 */
export class Reconciler {
  readonly #components: ReconcilerComponents
  readonly #timers: MembershipTimers
  readonly #places = new Map<string, Place>()
  #cancel: (() => void) | undefined
  #cancelJoin: (() => void) | undefined
  #running = false
  #joining = false
  #dials = 0

  constructor(components: ReconcilerComponents, timers: MembershipTimers) {
    this.#components = components
    this.#timers = timers
  }

  start(): void {
    this.#running = true
    this.#joining = true
    this.#cancelJoin = this.#components.clock.after(this.#timers.joinMs, () => {
      this.#joining = false
    })
    this.#compare()
  }

  stop(): void {
    this.#running = false
    this.#cancel?.()
    this.#cancelJoin?.()
    for (const place of this.#places.values()) place.dial?.abort()
    this.#places.clear()
  }

  /**
   * Sets the addresses that discovery lists. A replica that starts dials all of them at once. Later it leaves the first
   * dial to the newcomer, so that the two do not dial each other at the same moment.
   */
  set(addresses: readonly string[]): void {
    const listed = new Set(addresses)
    for (const address of listed) {
      if (this.#places.has(address)) continue
      this.#places.set(address, {
        instance: undefined,
        self: this.#components.isSelf(address),
        result: undefined,
        failures: undefined,
        dial: undefined,
      })
    }
    for (const [address, place] of [...this.#places]) {
      if (listed.has(address)) continue
      this.#places.delete(address)
      place.dial?.abort()
      if (place.instance && !this.#components.isConnected(place.instance)) this.#lose(place.instance)
    }
    if (this.#joining) this.#compare()
  }

  /** Dials the address of an instance that has lost its last connection: it or another one may answer there. */
  disconnected(instance: InstanceId): void {
    if (!this.#running) return
    const places = [...this.#places].filter(([, place]) => place.instance === instance)
    if (places.length === 0) return // its address is not in discovery
    for (const [address, place] of places) this.#dial(address, place)
  }

  /** Updates all addresses, because an instance has a connection, and a row with its address. */
  connected(): void {
    for (const [address, place] of this.#places) this.#refresh(address, place)
  }

  /** Listed addresses whose instance is not known yet. */
  unknown(): readonly string[] {
    return [...this.#places].filter(([, place]) => !place.self && !place.result && !place.instance).map(([at]) => at)
  }

  /** Listed addresses where no instance is found, sorted. */
  unanswered(): readonly UnansweredAddress[] {
    const { isConnected } = this.#components
    const all = [...this.#places].flatMap(([address, { self, instance, failures }]) => {
      if (!failures || self || (instance !== undefined && isConnected(instance))) return []
      return [{ address, ...failures }]
    })
    return all.sort((one, other) => (one.address < other.address ? -1 : 1))
  }

  #compare(): void {
    this.#cancel?.()
    const { reconcileMs } = this.#timers
    const ms = reconcileMs * (0.75 + this.#components.random() / 2)
    this.#cancel = this.#components.clock.after(ms, () => this.#compare())
    for (const [address, place] of this.#places) {
      this.#refresh(address, place)
      if (place.self) continue
      if (place.instance && this.#components.isConnected(place.instance)) continue
      this.#dial(address, place)
    }
  }

  #refresh(address: string, place: Place): void {
    const there = this.#components.whoIsAt(address)
    if (there) this.#occupy(place, there)
  }

  #dial(address: string, place: Place): void {
    if (place.dial || this.#dials >= maxDials) return
    const { clock, dial } = this.#components
    const deadline = new Deadline({ ms: this.#timers.handshakeMs, clock, reason: late })
    place.dial = deadline
    this.#dials++
    void dial(address, deadline.signal)
      .catch((error: unknown): DialResult => ({ kind: 'failed', error }))
      .then((result) => {
        deadline.end()
        this.#dials--
        place.dial = undefined
        if (this.#places.get(address) === place) this.#dialled(address, place, result)
      })
  }

  #dialled(address: string, place: Place, result: DialResult): void {
    place.result = result.kind
    place.failures = failuresAfter(result, place.failures)
    if (result.kind === 'self') place.self = true
    if (result.kind === 'member') this.#occupy(place, result.instance)
    else if (result.kind !== 'failed') this.#occupy(place, undefined)
    this.#components.dialled(address, result)
  }

  #occupy(place: Place, instance: InstanceId | undefined): void {
    const before = place.instance
    place.instance = instance
    if (instance) place.failures = undefined
    if (before && before !== instance && !this.#components.isConnected(before)) this.#lose(before)
  }

  #lose(instance: InstanceId): void {
    if (![...this.#places.values()].some((place) => place.instance === instance)) this.#components.lost(instance)
  }
}

function late(): Error {
  return Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' })
}

function failuresAfter(result: DialResult, before: Place['failures']): Place['failures'] {
  if (result.kind === 'member' || result.kind === 'self') return undefined
  const reason = result.kind === 'refused' ? 'connection refused' : reasonOf(result.error)
  return { dials: (before?.dials ?? 0) + 1, reason }
}

/** Returns the reason of the first address: a dial to several addresses fails with an error for each. */
function reasonOf(error: unknown): string {
  const { errors, message, name } = error as Partial<AggregateError>
  const [first] = errors ?? []
  return first === undefined ? message || name || 'it failed' : reasonOf(first)
}

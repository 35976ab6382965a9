import { Counter } from './counter.ts'
import { KasError, type LimitName } from './errors.ts'

/**
 * A holder of a part of the room. Both keys count, so neither a project with many users nor a user with many projects
 * takes all of a room.
 */
export interface RoomUser {
  readonly key: string
  /** key of the user behind the holder, if it is another */
  readonly userKey?: string | undefined
}

export interface SharedBound {
  readonly name: LimitName
  readonly limit: number
}

/** Purpose of a hold. */
export interface Use {
  /** the counted things, for the error of a refused holder */
  readonly what: string
  /** Ends the use, because another holder needs the room: called at most once, after the hold has left. */
  end(reason: KasError): void
  /** amount at first; default: 1 */
  readonly amount?: number
}

/** A holder's part of a room. */
export interface Hold {
  /** @throws KasError TOO_MANY_STREAMS: there is no room for this amount, and nothing was taken */
  take(amount: number): void
  give(amount: number): void
  /** Gives all back. */
  leave(): void
}

interface CountedHold extends Hold {
  readonly keys: ReadonlySet<string>
  readonly use: Use
  amount: number
}

/**
 * A bound that its holders share without quotas: a holder may have all of it while no other needs any. If it is full,
 * the holder with most makes room for one that still has less after that. Its heaviest hold ends, the newest of equal
 * ones. In a project, that is a hold of the user with most. A holder that would have as much, or more, is refused.
 */
export class SharedRoom {
  readonly #bound: SharedBound
  readonly #onEmpty: () => void
  readonly #all = new Set<CountedHold>()
  /** by key */
  readonly #amounts = new Counter<string>()
  #total = 0

  /** @param onEmpty - called when the last hold has left */
  constructor(bound: SharedBound, onEmpty: () => void = () => undefined) {
    this.#bound = bound
    this.#onEmpty = onEmpty
  }

  /** number of holds */
  get size(): number {
    return this.#all.size
  }

  /** @throws KasError TOO_MANY_STREAMS: there is no room */
  enter(holder: RoomUser, use: Use): Hold {
    const hold: CountedHold = {
      keys: new Set([holder.key, holder.userKey ?? holder.key]),
      use,
      amount: 0,
      take: (amount) => this.#take(hold, amount),
      give: (amount) => this.#add(hold, -Math.min(amount, hold.amount)),
      leave: () => this.#leave(hold),
    }
    this.#all.add(hold)
    try {
      hold.take(use.amount ?? 1)
    } catch (error) {
      hold.leave()
      throw error
    }
    return hold
  }

  #take(hold: CountedHold, amount: number): void {
    while (this.#all.has(hold) && this.#total + amount > this.#bound.limit) {
      const heaviest = this.#heaviestOfMost(this.#amountOf(hold) + amount)
      if (!heaviest) throw this.#tooMany(hold)
      const reason = this.#tooMany(heaviest)
      this.#leave(heaviest)
      heaviest.use.end(reason)
    }
    if (!this.#all.has(hold)) throw this.#tooMany(hold) // it made room for another itself
    this.#add(hold, amount)
  }

  /** Finds a hold of the holder with most, if that is more than `than`. */
  #heaviestOfMost(than: number): CountedHold | undefined {
    const most = this.#amounts.most()
    if (most === undefined || this.#amounts.of(most) <= than) return undefined
    let heaviest: CountedHold | undefined
    for (const hold of this.#all) {
      if (!hold.keys.has(most) || hold.amount === 0) continue
      const more = heaviest ? this.#leastOf(hold) - this.#leastOf(heaviest) || hold.amount - heaviest.amount : 0
      if (more >= 0) heaviest = hold
    }
    return heaviest
  }

  /**
   * Returns the smaller of the amounts of its holder's keys. Among a project's users, the one with most makes room
   * first.
   */
  #leastOf({ keys }: CountedHold): number {
    return Math.min(...Array.from(keys, (key) => this.#amounts.of(key)))
  }

  /** Returns the larger of the amounts of its holder's keys. */
  #amountOf({ keys }: CountedHold): number {
    return Math.max(0, ...Array.from(keys, (key) => this.#amounts.of(key)))
  }

  #tooMany(hold: CountedHold): KasError {
    const { what } = hold.use
    return new KasError({ code: 'TOO_MANY_STREAMS', ...this.#bound, what, own: this.#amountOf(hold) })
  }

  #add(hold: CountedHold, amount: number): void {
    hold.amount += amount
    this.#total += amount
    for (const key of hold.keys) this.#amounts.add(key, amount)
  }

  #leave(hold: CountedHold): void {
    if (!this.#all.delete(hold)) return
    this.#add(hold, -hold.amount)
    if (this.#all.size === 0) this.#onEmpty()
  }
}

/** A room of each key, such as an agent. Empty rooms are removed. */
export class SharedRooms<Key> {
  readonly #bound: SharedBound
  readonly #rooms = new Map<Key, SharedRoom>()

  constructor(bound: SharedBound) {
    this.#bound = bound
  }

  /** number of rooms with a hold */
  get size(): number {
    return this.#rooms.size
  }

  /** @throws KasError TOO_MANY_STREAMS: there is no room */
  enter(key: Key, holder: RoomUser, use: Use): Hold {
    const room = this.#rooms.get(key) ?? new SharedRoom(this.#bound, () => void this.#rooms.delete(key))
    this.#rooms.set(key, room)
    return room.enter(holder, use)
  }
}

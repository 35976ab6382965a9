/** Refusal for lack of room. Made once, so that a refusal allocates nothing. */
export interface NoRoom {
  readonly limit: number
  /** owner of the bound */
  readonly of: 'agent' | 'replica'
}

/** Uses a part of the bound, and can give it back. */
export interface RoomUser {
  readonly bufferedBytes: number
  /** Gives all back at once, and ends the work that it belongs to. */
  drop(why: NoRoom): void
  /** Nothing waits for it: it may be dropped for a new holder of its own caller. Absent: something waits */
  readonly isIdle?: boolean
}

export interface SharedTotalOptions {
  readonly maxBytes: number
  /** True if the key is that of one caller; absent: each key is. */
  readonly isOne?: (callerKey: string) => boolean
  /** called for each holder that is dropped, and for each request that is refused */
  readonly onFull?: () => void
}

/** The sum of one tenant over all callers, or of one caller over all tenants. */
class Account {
  bytes = 0
  /** by the key of the other side */
  readonly shares = new Map<string, Share>()
}

/**
 * A bound of all tenants and their callers together. There are no quotas: a caller that is alone may use all of it. If
 * it is full, the account that uses most makes room: a tenant, or a caller over all its tenants. In a tenant, the
 * caller that uses most over all tenants makes room.
 */
export class SharedTotal {
  readonly maxBytes: number
  readonly #noRoom: NoRoom
  readonly #isOne: (callerKey: string) => boolean
  readonly #onFull: (() => void) | undefined
  readonly #tenants = new Map<string, Account>()
  readonly #callers = new Map<string, Account>()
  #bytes = 0

  constructor({ maxBytes, isOne = () => true, onFull }: SharedTotalOptions) {
    this.maxBytes = maxBytes
    this.#noRoom = { limit: maxBytes, of: 'replica' }
    this.#isOne = isOne
    this.#onFull = onFull
  }

  get bytes(): number {
    return this.#bytes
  }

  get noRoom(): NoRoom {
    return this.#noRoom
  }

  /** Returns the caller's share in a tenant. Each call needs its own `leave`. */
  enter(tenant: string, callerKey: string): Share {
    const known = this.#tenants.get(tenant)?.shares.get(callerKey)
    const share = known ?? this.#create(tenant, callerKey)
    share.users++
    return share
  }

  /**
   * Adds bytes, and makes room for them. Called only by shares.
   *
   * @param isNew - the holder is new: holders of its own caller that are in use are not dropped for it
   * @returns false: there is no room
   */
  add(share: Share, bytes: number, isNew: boolean): boolean {
    while (this.#bytes + bytes > this.maxBytes) {
      const holder = bytes > this.maxBytes ? undefined : this.#greediest(share, isNew)
      this.#onFull?.()
      if (!holder) return false
      holder.drop(this.#noRoom)
    }
    this.count(share, bytes)
    return true
  }

  /** Adds bytes whatever the bound is. Called only by shares. */
  count(share: Share, bytes: number): void {
    share.bytes += bytes
    share.tenant.bytes += bytes
    share.caller.bytes += bytes
    this.#bytes += bytes
    if (bytes < 0 && share.bytes === 0 && share.users === 0) this.forget(share)
  }

  /** Removes a share that is empty and without users. Called only by shares. */
  forget(share: Share): void {
    const { tenant, caller, tenantKey, callerKey } = share
    if (tenant.shares.get(callerKey) !== share) return
    tenant.shares.delete(callerKey)
    caller.shares.delete(tenantKey)
    if (tenant.shares.size === 0) this.#tenants.delete(tenantKey)
    if (caller.shares.size === 0) this.#callers.delete(callerKey)
  }

  #create(tenantKey: string, callerKey: string): Share {
    const tenant = this.#tenants.get(tenantKey) ?? new Account()
    const caller = this.#callers.get(callerKey) ?? new Account()
    const share = new Share(this, { tenant, tenantKey, caller, callerKey, isOne: this.#isOne(callerKey) })
    this.#tenants.set(tenantKey, tenant)
    this.#callers.set(callerKey, caller)
    tenant.shares.set(callerKey, share)
    caller.shares.set(tenantKey, share)
    return share
  }

  /**
   * Removes from its share the holder that has to make room.
   *
   * @returns undefined: no holder can make room, or the asking share itself uses most
   */
  #greediest(asking: Share, isNew: boolean): RoomUser | undefined {
    const passed = new Set<Share>()
    for (;;) {
      const share = this.#largest(passed)
      if (!share) return undefined
      const holder = share.largest(isNew && share === asking)
      if (holder) {
        share.holders.delete(holder)
        return holder
      }
      if (isNew && share === asking) return undefined
      passed.add(share) // its bytes belong to holders that have ended
    }
  }

  /** Largest share of the tenant or caller that uses most. */
  #largest(passed: ReadonlySet<Share>): Share | undefined {
    let most: Account | undefined
    let isCaller = false
    for (const account of this.#tenants.values())
      if (account.bytes > (most?.bytes ?? 0) && hasOther(account, passed)) most = account
    for (const [key, account] of this.#callers) {
      if (account.bytes <= (most?.bytes ?? 0) || !this.#isOne(key) || !hasOther(account, passed)) continue
      most = account
      isCaller = true
    }
    let largest: Share | undefined
    let weight = 0
    for (const share of most?.shares.values() ?? []) {
      const own = isCaller || !share.isOne ? share.bytes : share.caller.bytes
      if (share.bytes === 0 || own <= weight || passed.has(share)) continue
      largest = share
      weight = own
    }
    return largest
  }
}

function hasOther({ shares }: Account, passed: ReadonlySet<Share>): boolean {
  if (passed.size === 0) return true
  for (const share of shares.values()) if (share.bytes > 0 && !passed.has(share)) return true
  return false
}

interface ShareParts {
  readonly tenant: Account
  readonly tenantKey: string
  readonly caller: Account
  readonly callerKey: string
  readonly isOne: boolean
}

/** The part of a total that one caller uses in one tenant. */
export class Share {
  bytes = 0
  users = 0
  readonly total: SharedTotal
  readonly holders = new Set<RoomUser>()
  readonly tenant: Account
  readonly tenantKey: string
  readonly caller: Account
  readonly callerKey: string
  readonly isOne: boolean

  constructor(total: SharedTotal, { tenant, tenantKey, caller, callerKey, isOne }: ShareParts) {
    this.total = total
    this.tenant = tenant
    this.tenantKey = tenantKey
    this.caller = caller
    this.callerKey = callerKey
    this.isOne = isOne
  }

  /**
   * Adds bytes of an existing holder.
   *
   * @returns false: there is no room, and nothing is added
   */
  add(bytes: number): boolean {
    return this.total.add(this, bytes, false)
  }

  /**
   * Adds bytes of a new holder. If its own caller uses most, it is refused before a holder of that caller ends.
   *
   * @returns false: there is no room, and nothing is added
   */
  admit(bytes: number): boolean {
    return this.total.add(this, bytes, true)
  }

  remove(bytes: number): void {
    this.total.count(this, -bytes)
  }

  /** Ends one use of the share. Bytes that are left still count. */
  leave(): void {
    this.users--
    if (this.users === 0 && this.bytes === 0) this.total.forget(this)
  }

  /**
   * The holder that uses most; the newest of equal ones.
   *
   * @param isIdle - only idle holders
   */
  largest(isIdle: boolean): RoomUser | undefined {
    let most: RoomUser | undefined
    for (const holder of this.holders) {
      if (isIdle && !holder.isIdle) continue
      const bytes = holder.bufferedBytes
      if (bytes > 0 && bytes >= (most?.bufferedBytes ?? 0)) most = holder
    }
    return most
  }
}

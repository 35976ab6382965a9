/** Why there is no room. Made once: nothing is allocated for who is refused. */
export interface NoRoom {
  readonly limit: number
  /** whose bound it is */
  readonly of: 'agent' | 'replica'
}

/** Has some of a bound, and can give it back. */
export interface Holder {
  readonly bufferedBytes: number
  /** Gives all back at once, and ends what it is for. */
  drop(why: NoRoom): void
  /** Nobody waits for it: it goes first, also for who has it. Absent: somebody does */
  readonly isIdle?: boolean
}

export interface SharedTotalOptions {
  readonly maxBytes: number
  /** whether a key stands for one caller; absent: each does */
  readonly isOne?: (callerKey: string) => boolean
  /** called for each holder that makes room, and each that gets none */
  readonly onFull?: () => void
}

/** The sum of one tenant over all callers, or of one caller over all tenants. */
class Account {
  bytes = 0
  /** by the key of the other side */
  readonly shares = new Map<string, Share>()
}

/**
 * A bound of all tenants and their callers together. There are no quotas: who is alone may have all of it. Where it is full,
 * room is made by the tenant that holds most, and in it by the caller that holds most over all tenants; or by that caller,
 * where it holds more than any tenant does.
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

  /** @returns what a caller has of it in a tenant; to be `leave`d once for each time */
  enter(tenant: string, callerKey: string): Share {
    const known = this.#tenants.get(tenant)?.shares.get(callerKey)
    const share = known ?? this.#create(tenant, callerKey)
    share.users++
    return share
  }

  /** By shares alone. @param isNew - a holder that is not there yet: its own caller's that are in use do not go for it */
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

  /** By shares alone, whatever the bound is. */
  count(share: Share, bytes: number): void {
    share.bytes += bytes
    share.tenant.bytes += bytes
    share.caller.bytes += bytes
    this.#bytes += bytes
    if (bytes < 0 && share.bytes === 0 && share.users === 0) this.forget(share)
  }

  /** By shares alone: nothing of it is left, and nobody uses it. */
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

  /** @returns who makes room, without its place; undefined: nobody can, or who asks is the one */
  #greediest(asking: Share, isNew: boolean): Holder | undefined {
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
      passed.add(share) // what it has is left behind by holders that have ended
    }
  }

  /** Shares of the tenant that holds most, or of the caller that does. */
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

/** The part of a total that one caller has in one tenant. */
export class Share {
  bytes = 0
  users = 0
  readonly total: SharedTotal
  readonly holders = new Set<Holder>()
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

  /** For something that is there. @returns whether there was room, or came to be; nothing is added otherwise */
  add(bytes: number): boolean {
    return this.total.add(this, bytes, false)
  }

  /** For something new: who holds most is refused, before anything of theirs ends. */
  admit(bytes: number): boolean {
    return this.total.add(this, bytes, true)
  }

  remove(bytes: number): void {
    this.total.count(this, -bytes)
  }

  /** Nothing is added by this user any more. What it has left still counts. */
  leave(): void {
    this.users--
    if (this.users === 0 && this.bytes === 0) this.total.forget(this)
  }

  /** The one that holds most; of equal ones the newest. */
  largest(isIdle: boolean): Holder | undefined {
    let most: Holder | undefined
    for (const holder of this.holders) {
      if (isIdle && !holder.isIdle) continue
      const bytes = holder.bufferedBytes
      if (bytes > 0 && bytes >= (most?.bufferedBytes ?? 0)) most = holder
    }
    return most
  }
}

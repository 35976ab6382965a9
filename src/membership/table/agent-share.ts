import { createHash } from 'node:crypto'
import { Counter } from '../../lib/counter.ts'
import type { OwnRow } from './own-row.ts'
import { bounds, isConnection, itemBytes, type RowConnection, type RowItem } from './row.ts'

/** Bounds of one agent's items in the own row. Any tenant may fill its own share, but no other. */
export const shareBounds = {
  /** size above which all shares are `tightBytes`, so that new agents still find room for their first connections */
  roomyRowBytes: bounds.rowBytes / 2,
  tightBytes: 16 * 1024,
  /** of one item: it fits in a message of 256 KiB */
  itemBytes: 128 * 1024,
  /** pods whose names are published: each change of one recomputes the homes of all, from sorted names */
  podNames: 100,
  /** connections and registrations that are kept, published or not */
  items: 2 * bounds.itemsOfAgent,
  /**
   * of changes that are published at once, after a pause; a replica's 1,000 connections of one agent take twice that
   */
  burstBytes: 64 * 1024,
  /** of changes that are published each second after that: those of 100 connections */
  bytesPerSecond: 16 * 1024,
  /** cost of a batch with changes of the agent, beside its bytes: it wakes all calls that wait for the agent */
  batchBytes: 4 * 1024,
} as const

/** Limit that prevents publication: the agent's share, the row's size, or the rate of changes. */
export type PublishLimit = 'share' | 'row' | 'rate'

/** Methods that several connections of one role serve. Only one of them lists the methods in the row, for all. */
interface MethodSet {
  readonly key: string
  readonly methods: readonly string[]
  /** id of the connection in the row that lists the methods */
  carrier: string | undefined
  /** number of items that need it or are published with it */
  uses: number
}

interface Kept {
  /** undefined: it is removed, and still in the row */
  wanted: RowItem | undefined
  set: MethodSet | undefined
  /** method set of the item in the row */
  publishedSet: MethodSet | undefined
}

export interface Settled {
  /** true: an item became blocked, or is not blocked any more */
  readonly otherBlocked: boolean
  readonly limitedBy: ReadonlySet<PublishLimit>
}

const noMethods: readonly string[] = []
/** by lists that are immutable: a connection offers the same one each time */
const digests = new WeakMap<readonly string[], string>()

/**
 * Items of one agent for the own row, which it adds as far as the share allows. The first ones are published first, and
 * stay. Among connections with the same methods only one lists them. Readers need the methods of the agent at this
 * replica, not those of each connection.
 */
export class AgentShare {
  readonly #own: OwnRow
  readonly #kept = new Map<string, Kept>()
  /** ids whose entry in the row is not up to date */
  readonly #pending = new Set<string>()
  /** ids that did not fit: tried again once there is room */
  readonly #blocked = new Set<string>()
  readonly #sets = new Map<string, MethodSet>()
  /** number of connections by name of the pod */
  readonly #names = new Counter<string>()
  #published = 0
  #bytes = 0
  #spent = 0
  #freed = false
  /** size of the row when it was too full for the blocked items */
  #fullAt: number | undefined

  constructor(own: OwnRow) {
    this.#own = own
  }

  get isEmpty(): boolean {
    return this.#kept.size === 0 && this.#spent === 0
  }

  /** True if a change was recent, or if it waits for time to pass. */
  get isBusy(): boolean {
    return this.#spent > 0 || this.#fullAt !== undefined
  }

  /** True if an item could be published now. */
  get isDue(): boolean {
    const mayFit = this.#freed && this.#blocked.size > 0
    return (this.#pending.size > 0 || mayFit) && this.#spent <= shareBounds.burstBytes
  }

  /** Names of pods that are published, or about to be. */
  pods(): ReadonlySet<string> {
    const pods = new Set<string>()
    for (const [id, { wanted }] of this.#kept) if (!this.#blocked.has(id)) pods.add(podOf(wanted))
    pods.delete('')
    return pods
  }

  /** Pod of the item, which is in `pods` unless the item is blocked. */
  podOf(id: string): string {
    return podOf(this.#kept.get(id)?.wanted)
  }

  /** @returns false: there are too many, and it is not kept */
  put(item: RowItem): boolean {
    const { id } = item
    if (!this.#kept.has(id) && this.#kept.size >= shareBounds.items) return false
    const kept = this.#kept.get(id) ?? { wanted: undefined, set: undefined, publishedSet: undefined }
    this.#kept.set(id, kept)
    if (isConnection(item)) this.#putConnection(kept, item)
    else this.#want(kept, item, undefined)
    this.#blocked.delete(id)
    this.#pending.add(id)
    return true
  }

  #putConnection(kept: Kept, connection: RowConnection): void {
    const set = this.#setOf(connection)
    const methods = set?.methods ?? noMethods
    const isNamed = this.#names.of(connection.pod) > 0 || this.#names.counts.size < shareBounds.podNames
    const pod = isNamed ? connection.pod : ''
    const isAsGiven = methods === connection.methods && pod === connection.pod
    this.#want(kept, isAsGiven ? connection : { ...connection, methods, pod }, set)
  }

  remove(id: string): void {
    const kept = this.#kept.get(id)
    if (!kept) return
    this.#want(kept, undefined, undefined)
    this.#blocked.delete(id)
    this.#pending.add(id)
  }

  /** Counts one second. */
  tick(): void {
    this.#spent = Math.max(0, this.#spent - shareBounds.bytesPerSecond)
    if (this.#fullAt === undefined || this.#own.bytes >= this.#fullAt) return
    this.#fullAt = undefined
    this.#freed = true
  }

  /** Updates the row as far as the limits allow. */
  settle(): Settled {
    const limitedBy = new Set<PublishLimit>()
    const version = this.#own.version
    let otherBlocked = false
    const leaving = [...this.#pending].filter((id) => !this.#kept.get(id)?.wanted)
    for (const id of [...leaving, ...this.#pending]) {
      if (!this.#pending.has(id)) continue
      const limit = this.#bring(id)
      if (limit) limitedBy.add(limit)
      if (limit === 'rate') break
      this.#pending.delete(id)
      if (!limit) continue
      this.#blocked.add(id)
      otherBlocked = true
    }
    if (this.#freed && !limitedBy.has('rate')) {
      this.#freed = false
      for (const id of this.#blocked) {
        const limit = this.#bring(id)
        if (limit === 'rate') this.#freed = true
        if (limit) break
        this.#blocked.delete(id)
        otherBlocked = true
      }
    }
    if (this.#own.version > version) this.#spent += shareBounds.batchBytes
    return { otherBlocked, limitedBy }
  }

  /**
   * Updates one entry of the row.
   *
   * @returns the limit that prevents it; then nothing has changed. undefined: it is up to date
   */
  #bring(id: string): PublishLimit | undefined {
    const kept = this.#kept.get(id)
    if (!kept) return undefined
    const { wanted, set, publishedSet } = kept
    const published = this.#own.item(id)
    const newCarrier =
      publishedSet?.carrier === id && publishedSet !== set ? this.#newCarrierOf(publishedSet) : undefined
    const named = set?.carrier !== undefined && set.carrier !== id
    const item = wanted && isConnection(wanted) && named ? { ...wanted, methods: noMethods } : wanted
    const newCarrierPublished = newCarrier === undefined ? undefined : this.#own.connections.get(newCarrier)
    const newCarrierItem = newCarrierPublished && {
      ...newCarrierPublished,
      methods: publishedSet?.methods ?? noMethods,
    }
    const cost = bytesOf(item) + bytesOf(newCarrierItem)
    const growth = cost - bytesOf(published) - bytesOf(newCarrierPublished)
    if (cost > 0 && this.#spent > shareBounds.burstBytes) return 'rate'
    const limit = this.#misfit(bytesOf(item), growth, published ? 0 : 1)
    if (item && limit) return limit
    if (publishedSet?.carrier === id && publishedSet !== set) publishedSet.carrier = newCarrier
    if (item) this.#own.add(item)
    else this.#own.remove(id)
    if (item && set && !named) set.carrier = id
    if (newCarrierItem) this.#own.add(newCarrierItem)
    this.#setPublished(kept, item ? set : undefined)
    if (!item) this.#kept.delete(id)
    this.#published += (item ? 1 : 0) - (published ? 1 : 0)
    this.#bytes += growth
    this.#spent += published || item ? cost + id.length : 0
    if (growth < 0) this.#freed = true
    return undefined
  }

  #misfit(bytes: number, growth: number, more: number): PublishLimit | undefined {
    const { roomyRowBytes, tightBytes } = shareBounds
    if (bytes > shareBounds.itemBytes || this.#published + more > bounds.itemsOfAgent) return 'share'
    if (growth <= 0) return undefined
    const limit = this.#own.bytes > roomyRowBytes ? tightBytes : bounds.agentBytes
    if (this.#bytes + growth > bounds.agentBytes) return 'share'
    if (this.#bytes + growth <= limit && this.#own.bytes + growth <= bounds.rowBytes) return undefined
    this.#fullAt = this.#own.bytes
    return 'row'
  }

  /** Returns the newest one, which is likely to stay for the longest. */
  #newCarrierOf(set: MethodSet): string | undefined {
    let newCarrier: string | undefined
    for (const [id, kept] of this.#kept) {
      if (id !== set.carrier && kept.set === set && kept.publishedSet === set) newCarrier = id
    }
    return newCarrier
  }

  #setOf({ role, methods }: RowConnection): MethodSet | undefined {
    if (methods.length === 0) return undefined
    const key = `${role} ${digestOf(methods)}`
    const known = this.#sets.get(key)
    if (known) return known
    const set = { key, methods, carrier: undefined, uses: 0 }
    this.#sets.set(key, set)
    return set
  }

  #want(kept: Kept, wanted: RowItem | undefined, set: MethodSet | undefined): void {
    if (set) set.uses++
    this.#unuse(kept.set)
    const [pod, before] = [podOf(wanted), podOf(kept.wanted)]
    if (pod !== '') this.#names.add(pod)
    if (before !== '') this.#names.add(before, -1)
    kept.wanted = wanted
    kept.set = set
  }

  #setPublished(kept: Kept, set: MethodSet | undefined): void {
    if (set) set.uses++
    this.#unuse(kept.publishedSet)
    kept.publishedSet = set
  }

  #unuse(set: MethodSet | undefined): void {
    if (set && --set.uses === 0) this.#sets.delete(set.key)
  }
}

/** Digest that does not depend on the order of the methods. */
function digestOf(methods: readonly string[]): string {
  const known = digests.get(methods)
  if (known !== undefined) return known
  const digest = createHash('sha256')
    .update([...methods].sort().join(' '))
    .digest('base64')
  digests.set(methods, digest)
  return digest
}

function bytesOf(item: RowItem | undefined): number {
  return item ? itemBytes(item) : 0
}

/** Name that the pod reports; a registration has none. */
function podOf(item: RowItem | undefined): string {
  return item && isConnection(item) ? item.pod : ''
}

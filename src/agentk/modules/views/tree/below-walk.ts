import { placeKey } from '../../../../kubernetes/key.ts'
import { customParentsOf } from '../store/object-record.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'

/** Object below which others are to be placed again. Its children are level 1. */
export interface Below {
  readonly record: ObjectRecord
  /** children that name it as owner or deployer are to be placed, believed or not */
  readonly claims: boolean
  /** levels at which the way up may be too long now, or no longer; none: `last` is less */
  readonly first: number
  readonly last: number
}

interface Found {
  readonly record: ObjectRecord
  readonly level: number
  readonly first: number
  readonly last: number
}

/** Finds what is below objects, a step at a time: each object once, even in a cycle. */
export class BelowWalk {
  readonly #records: Pick<ReadonlyRecords, 'claiming'>
  readonly #maxLevels: number
  readonly #waiting = new Map<string, Below>()
  #walked: Below | undefined
  /** objects of the current walk whose children come next, and all that were found */
  #found: Found[] = []
  readonly #known = new Set<string>()
  #at: Found | undefined
  #children: Iterator<ObjectRecord> | undefined

  /** @param maxLevels - levels below an object whose own place is not known */
  constructor(records: Pick<ReadonlyRecords, 'claiming'>, maxLevels: number) {
    this.#records = records
    this.#maxLevels = maxLevels
  }

  /** Adds a walk; a walk of the same object that waits is merged with it. */
  add(below: Below): void {
    const { record, claims, first, last } = below
    if (!claims && last < first) return
    const key = `${record.uid}\n${placeKey(record.kind.key, record.namespace, record.name)}`
    const known = this.#waiting.get(key)
    this.#waiting.set(
      key,
      known
        ? {
            record,
            claims: claims || known.claims,
            first: Math.min(first, known.first),
            last: Math.max(last, known.last),
          }
        : below,
    )
  }

  get isEmpty(): boolean {
    return this.#walked === undefined && this.#waiting.size === 0
  }

  /**
   * @param visit - called with each object that is to be placed again
   * @returns true if there is more
   */
  step(visit: (record: ObjectRecord) => void): boolean {
    const walked = this.#walked ?? this.#begin()
    if (!walked) return false
    const { value: child } = this.#children?.next() ?? {}
    if (child && this.#at) this.#find(walked, child, this.#at, visit)
    else if (!this.#descend()) this.#end()
    return !this.isEmpty
  }

  #begin(): Below | undefined {
    const [first] = this.#waiting
    if (!first) return undefined
    const [key, below] = first
    this.#waiting.delete(key)
    this.#walked = below
    this.#known.add(below.record.uid)
    this.#found = [{ ...below, level: 0 }]
    this.#descend()
    return below
  }

  #descend(): boolean {
    this.#at = this.#found.pop()
    this.#children = this.#at && this.#records.claiming(this.#at.record)[Symbol.iterator]()
    return this.#at !== undefined
  }

  #end(): void {
    this.#walked = undefined
    this.#known.clear()
  }

  #find({ claims }: Below, child: ObjectRecord, above: Found, visit: (record: ObjectRecord) => void): void {
    if (this.#known.has(child.uid)) return
    this.#known.add(child.uid)
    const level = above.level + 1
    const isClaim = claims && level === 1
    if (isClaim || (level >= above.first && level <= above.last)) visit(child)
    // it may get another parent by custom: how far up that parent is, is not known
    const range =
      isClaim && customParentsOf(child).length > 0 ? { first: level + 1, last: level + this.#maxLevels } : above
    if (level < range.last) this.#found.push({ record: child, level, first: range.first, last: range.last })
  }
}

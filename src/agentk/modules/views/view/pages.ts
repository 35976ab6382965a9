import { type Entry, Family, type Node, type Ranked } from '../tree/forest-node.ts'
import type { RunInTurns, Scans } from '../tree/scans.ts'
import { asItIs, type Order, orderBy, type PageOrder } from './order.ts'

/** If more entries than this have come or gone, a scan finds the rows. */
const maxTouched = 1000

/** Source of a page: children of a node, or those of one kind that are one row there. */
export interface PageSource {
  readonly node: Node
  /** undefined: all kinds */
  readonly kind: string | undefined
}

/** Rows that are asked for. */
export interface PageWanted {
  readonly limit: number
  /** rows before the first of them */
  readonly offset: number
  /** undefined: the worst first */
  readonly sort?: PageOrder | undefined
}

/** First rows of a node's children, and as many to spare: changes are placed without reading all children. */
export class Page {
  readonly wanted: PageWanted
  readonly #compare: Order
  #limit: number
  readonly #scans: Scans
  readonly #onScanned: () => void
  #source: PageSource
  /** in order: no other entry ranks before the last of them */
  #best: readonly Entry[] = []
  /** there are no other entries */
  #isAll = false
  readonly #touched = new Set<Entry>()
  /** touched since the scan began */
  readonly #touchedInScan = new Set<Entry>()
  #scan: 'none' | 'needed' | 'waits' | 'runs' = 'needed'
  #isScanned = false
  /** the scan that runs does not find all that there is now */
  #isLate = false
  #cancelScan: () => void = () => undefined

  /** @param onScanned - called when the order may differ */
  constructor(scans: Scans, source: PageSource, wanted: PageWanted, onScanned: () => void) {
    this.#scans = scans
    this.#source = source
    this.wanted = wanted
    this.#compare = orderBy(wanted.sort)
    this.#limit = wanted.limit
    this.#onScanned = onScanned
  }

  get source(): PageSource {
    return this.#source
  }

  /** True if the page can be shown. */
  get isScanned(): boolean {
    return this.#isScanned
  }

  /** Number of rows, not of children: many of a kind may be one row. */
  get size(): number {
    const { node, kind } = this.#source
    if (kind !== undefined) return node.familyOf(kind)?.members.length ?? 0
    return node.families.reduce((sum, { isBundle, members }) => sum + (isBundle ? 1 : members.length), 0)
  }

  get order(): readonly Entry[] {
    const { offset } = this.wanted
    return this.#best.slice(offset, offset + this.#limit)
  }

  /** Bound of entries that are kept: as many to spare as are shown. */
  get #most(): number {
    return this.wanted.offset + 2 * this.#limit
  }

  touch(child: Node): void {
    const { node, kind } = this.#source
    const family = kind === undefined ? node.familyOf(child.kind) : undefined
    for (const entry of family?.isBundle ? [child, family] : [child]) {
      this.#touched.add(entry)
      if (this.#scan === 'runs') this.#touchedInScan.add(entry)
    }
    if (this.#touched.size > maxTouched) this.scanAnew()
  }

  /**
   * Asks for a new scan: the entries are not enough, or of another source. A scan of the same source that runs goes on:
   * if each change ended it, none would end by itself.
   */
  scanAnew(source = this.#source): void {
    if (source === this.#source && this.#scan === 'runs') {
      this.#isLate = true
      this.#touched.clear()
      this.#touchedInScan.clear()
      return
    }
    if (source !== this.#source) this.#isScanned = false
    this.#source = source
    this.#touched.clear()
    this.#best = this.#best.filter((entry) => this.#isHere(entry)).sort(this.#compare)
    this.#isAll = false
    this.#cancelScan()
    this.#isLate = false
    this.#scan = 'needed'
  }

  /**
   * Places the entries that were touched.
   *
   * @param room - rows that the page may have at most
   * @returns number of rows that it takes
   */
  update(room: number): number {
    const { limit, offset } = this.wanted
    this.#limit = Math.min(limit, room)
    if (this.#touched.size > 0) this.#placeTouched()
    const end = Math.min(offset + this.#limit, this.size)
    if (!this.#isAll && this.#best.length < end && this.#scan === 'none') this.#scan = 'needed'
    if (this.#scan === 'needed') this.#startScan()
    return Math.max(0, end - offset)
  }

  close(): void {
    this.#cancelScan()
    this.#scan = 'none'
  }

  #placeTouched(): void {
    const best = this.#best.filter((entry) => !this.#touched.has(entry))
    const last = best.at(-1)
    const isNear = (entry: Entry) => this.#isAll || (last !== undefined && this.#compare(entry, last) < 0)
    const entries = [...this.#touched].filter((entry) => this.#isHere(entry))
    this.#touched.clear()
    const near = entries.filter(isNear)
    if (near.length < entries.length) this.#isAll = false
    this.#keep([...best, ...near].sort(this.#compare))
  }

  #keep(entries: readonly Entry[]): void {
    const most = this.#most
    if (entries.length > most) this.#isAll = false
    this.#best = entries.slice(0, most)
  }

  #isHere(entry: Entry): boolean {
    const { node, kind } = this.#source
    if (entry instanceof Family) return kind === undefined && entry.parent === node && entry.isBundle
    const { family } = entry
    if (family?.parent !== node) return false
    return kind === undefined ? !family.isBundle : family.kind === kind && family.isBundle
  }

  #startScan(): void {
    this.#scan = 'waits'
    let end: () => void = () => undefined
    let isAtOnce = true
    const cancelWait = this.#scans.add(!this.#isScanned, (done) => {
      this.#scan = 'runs'
      this.#touchedInScan.clear()
      const entries = this.#entries()
      const cancel = best(this.#scans.run, { entries, count: this.#most, compare: this.#compare }, (found) => {
        done()
        this.#found(found, found.length === entries.length)
        if (!isAtOnce) this.#onScanned()
      })
      end = () => {
        cancel()
        done()
      }
    })
    isAtOnce = false
    this.#cancelScan = () => {
      if (this.#scan === 'waits') cancelWait()
      else if (this.#scan === 'runs') end()
    }
  }

  #found(found: readonly Entry[], isAll: boolean): void {
    this.#best = found
    this.#isAll = isAll
    this.#scan = 'none'
    this.#isScanned = true
    this.#touched.clear()
    if (this.#isLate) this.scanAnew()
    if (this.#touchedInScan.size === 0) return
    for (const entry of this.#touchedInScan) this.#touched.add(entry)
    this.#placeTouched()
  }

  /** Returns a list of its own that takes the least memory: there may be 100,000 entries. */
  #entries(): readonly Entry[] {
    const { node, kind } = this.#source
    if (kind !== undefined) return [...(node.familyOf(kind)?.members ?? [])]
    return node.families.flatMap((family): readonly Entry[] => (family.isBundle ? [family] : family.members))
  }
}

/**
 * Finds the first `count` entries.
 *
 * @returns a function that ends the work early
 */
function best(
  run: RunInTurns,
  { entries, count, compare }: { entries: readonly Entry[]; count: number; compare: Order },
  done: (found: Entry[]) => void,
): () => void {
  let found: Entry[] = []
  // a copy, since entries may change meanwhile
  let bound: Ranked | undefined
  let next = 0
  const cut = () => {
    found = found.sort(compare).slice(0, count)
    const last = found.length === count ? found.at(-1) : undefined
    bound = last && asItIs(last)
  }
  const step = () => {
    const entry = entries[next++]
    if (!entry) return false
    if (!bound || compare(entry, bound) < 0) found.push(entry)
    if (found.length >= 4 * count) cut()
    return true
  }
  return run(step, () => {
    cut()
    done(found)
  })
}

import { podKind } from '../access/list-rights.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import type { Selection, Selections, Taker } from '../store/selections.ts'
import type { Forest } from '../tree/forest.ts'
import { type Link, linksOf } from './relations.ts'

/** Bound of objects that are read for links of one update; those of further nodes follow with the next. */
export const maxReadPerUpdate = 10_000
/** Reads that take as much time as to ask for one selection, whose selector may be long. */
const readsToSelect = 100

export interface ViewLinksComponents {
  readonly records: Pick<ReadonlyRecords, 'get' | 'named' | 'naming' | 'inNamespace'>
  readonly selections: Pick<Selections, 'take' | 'release' | 'leave'>
  /** key of the view's user */
  readonly user: string
  /** links that the view may have now */
  readonly maxLinks: () => number
}

interface Linked {
  readonly record: ObjectRecord
  readonly forest: Forest
  /** undefined: it selects nothing that the caller may list, or there is no room for it */
  selection: Selection | undefined
  /** there was no room for its selection */
  isRefused: boolean
  /** versions of what it was read from; undefined: not read yet */
  from: string | undefined
  links: readonly Link[]
}

const noLinks: readonly Link[] = []

/** Links of the open nodes of one view. They are read again when something has changed from which they were read. */
export class ViewLinks {
  readonly #components: ViewLinksComponents
  readonly #taker: Taker
  /** there is room again, and refused selections were not asked for again yet */
  #mayBeRoom = false
  #count = 0
  /** by node */
  readonly #linked = new Map<string, Linked>()

  /** @param onChange - called when links may differ */
  constructor(components: ViewLinksComponents, onChange: () => void) {
    this.#components = components
    const onRoom = () => {
      this.#mayBeRoom = true
      onChange()
    }
    this.#taker = { user: components.user, onChange, onRoom }
  }

  /** Number of links of all nodes. */
  get count(): number {
    return this.#count
  }

  /** Number of open nodes that may have links. */
  get size(): number {
    return this.#linked.size
  }

  of(id: string): readonly Link[] {
    return this.#linked.get(id)?.links ?? noLinks
  }

  /**
   * @param open - all nodes whose links are shown
   * @returns nodes whose links have changed; `isWhole`: all were read
   */
  update(forest: Forest, open: readonly ObjectRecord[]): { changed: readonly string[]; isWhole: boolean } {
    const ids = new Set(open.map(({ uid }) => uid))
    for (const id of this.#linked.keys()) if (!ids.has(id)) this.#forget(id)
    let read = this.#keepAll(forest, open)
    const most = this.#components.maxLinks()
    const changed: string[] = []
    for (const [id, linked] of [...this.#linked]) {
      const from = `${linked.selection?.version} ${forest.visible.linksVersion}`
      if (linked.from === from) continue
      if (read >= maxReadPerUpdate) return { changed, isWhole: false }
      read += this.#read(linked, { from, most }, () => changed.push(id))
      // the next update begins with the nodes that were read the longest ago
      this.#linked.delete(id)
      this.#linked.set(id, linked)
    }
    return { changed, isWhole: read < maxReadPerUpdate }
  }

  close(): void {
    for (const id of [...this.#linked.keys()]) this.#forget(id)
    this.#components.selections.leave(this.#taker)
  }

  #forget(id: string): void {
    const linked = this.#linked.get(id)
    this.#count -= linked?.links.length ?? 0
    this.#release(linked?.selection)
    this.#linked.delete(id)
  }

  #release(selection: Selection | undefined): void {
    if (selection) this.#components.selections.release(selection, this.#taker)
  }

  /**
   * @returns work done, as objects that were read; `maxReadPerUpdate` or more: some nodes are left for the next update
   */
  #keepAll(forest: Forest, open: readonly ObjectRecord[]): number {
    const mayBeRoom = this.#mayBeRoom
    this.#mayBeRoom = false
    let read = 0
    for (const record of open) {
      const known = this.#linked.get(record.uid)
      const isSame = known?.record === record && known.forest === forest
      if (isSame && !(mayBeRoom && known.isRefused)) continue
      if (read >= maxReadPerUpdate) {
        this.#mayBeRoom = mayBeRoom
        break
      }
      this.#keep(forest, record, known)
      read += record.selector ? readsToSelect : 1
    }
    return read
  }

  #keep(forest: Forest, record: ObjectRecord, known: Linked | undefined): void {
    const { selector, namespace, uid } = record
    const maySelect = selector && forest.visible.visibility.mayList(podKind, namespace)
    const selection = maySelect ? this.#components.selections.take(namespace, selector, this.#taker) : undefined
    const isRefused = maySelect !== undefined && maySelect && !selection
    this.#linked.set(uid, { record, forest, selection, isRefused, from: undefined, links: known?.links ?? noLinks })
    this.#release(known?.selection) // last: a selection that both have stays
  }

  /** Reads links of a node; if there is no room for all, they are read again with the next update. */
  #read(linked: Linked, { from, most }: { from: string; most: number }, onChange: () => void): number {
    const { record, forest, selection } = linked
    const { links: all, read } = linksOf(record, {
      records: this.#components.records,
      sees: forest.visible.sees,
      selected: selection?.members ?? [],
    })
    const links = all.slice(0, Math.max(0, most - this.#count + linked.links.length))
    linked.from = links.length < all.length ? undefined : from
    const isSame = links.length === linked.links.length && links.every((link, i) => isSameLink(link, linked.links[i]))
    if (!isSame) {
      this.#count += links.length - linked.links.length
      linked.links = links
      onChange()
    }
    return read
  }
}

function isSameLink(one: Link, other: Link | undefined): boolean {
  return other !== undefined && one.every((part, i) => part === other[i])
}

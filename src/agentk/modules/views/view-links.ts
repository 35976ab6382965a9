import { podKind } from './access/visibility.ts'
import type { Forest } from './forest.ts'
import type { ObjectRecord, ReadonlyRecords } from './record.ts'
import { hasLinks, type Link, linksOf } from './relations.ts'
import type { Selection, Selections } from './selections.ts'

/** Objects that are read for links of one update; those of further nodes follow with the next. */
export const maxReadPerUpdate = 10_000

export interface ViewLinksComponents {
  readonly records: Pick<ReadonlyRecords, 'get' | 'named'>
  readonly selections: Pick<Selections, 'take' | 'release'>
  /** whose view it is; undefined: the agent's */
  readonly user: string | undefined
}

interface Linked {
  readonly record: ObjectRecord
  readonly forest: Forest
  /** undefined: it selects nothing that may be listed, or there is no room for it */
  readonly selection: Selection | undefined
  readonly release: () => void
  /** of what it was read from; undefined: not read yet */
  from: string | undefined
  links: readonly Link[]
}

const noLinks: readonly Link[] = []

/** Links of the open nodes of one view. They are read anew where what they were read from is another. */
export class ViewLinks {
  readonly #components: ViewLinksComponents
  readonly #onChange: () => void
  /** by node */
  readonly #linked = new Map<string, Linked>()

  /** @param onChange - links may be others */
  constructor(components: ViewLinksComponents, onChange: () => void) {
    this.#components = components
    this.#onChange = onChange
  }

  /** Open nodes that may be linked. */
  get size(): number {
    return this.#linked.size
  }

  of(id: string): readonly Link[] {
    return this.#linked.get(id)?.links ?? noLinks
  }

  /**
   * @param open - all nodes whose links are shown
   * @returns those whose links are others now, and whether all were read
   */
  update(forest: Forest, open: readonly ObjectRecord[]): { changed: readonly string[]; isWhole: boolean } {
    const ids = new Set(open.map(({ uid }) => uid))
    for (const id of this.#linked.keys()) if (!ids.has(id)) this.#forget(id)
    for (const record of open) if (hasLinks(record)) this.#keep(forest, record)
    const changed: string[] = []
    let read = 0
    for (const [id, linked] of [...this.#linked]) {
      const from = `${linked.selection?.version} ${forest.comings}`
      if (linked.from === from) continue
      if (read >= maxReadPerUpdate) return { changed, isWhole: false }
      read += this.#read(linked, from, () => changed.push(id))
      // the next update begins with those that were read the longest ago
      this.#linked.delete(id)
      this.#linked.set(id, linked)
    }
    return { changed, isWhole: true }
  }

  close(): void {
    for (const id of [...this.#linked.keys()]) this.#forget(id)
  }

  #forget(id: string): void {
    this.#linked.get(id)?.release()
    this.#linked.delete(id)
  }

  #keep(forest: Forest, record: ObjectRecord): void {
    const known = this.#linked.get(record.uid)
    if (known?.record === record && known.forest === forest) return
    this.#linked.set(record.uid, {
      record,
      forest,
      ...this.#select(forest, record),
      from: undefined,
      links: known?.links ?? noLinks,
    })
    known?.release() // last: what both select stays
  }

  #select(forest: Forest, { selector, namespace }: ObjectRecord): Pick<Linked, 'selection' | 'release'> {
    const { selections, user } = this.#components
    const onChange = () => this.#onChange()
    const maySelect = selector && forest.sight.visibility.mayList(podKind, namespace)
    const selection = maySelect ? selections.take(namespace, selector, user, onChange) : undefined
    return { selection, release: () => selection && selections.release(selection, user, onChange) }
  }

  #read(linked: Linked, from: string, onChange: () => void): number {
    const { record, forest, selection } = linked
    const { links, read } = linksOf(record, {
      records: this.#components.records,
      isSeen: (uid) => forest.node(uid) !== undefined,
      selected: selection?.members ?? [],
    })
    linked.from = from
    const isSame = links.length === linked.links.length && links.every((link, i) => isSameLink(link, linked.links[i]))
    if (!isSame) {
      linked.links = links
      onChange()
    }
    return read
  }
}

function isSameLink([relation, id]: Link, other: Link | undefined): boolean {
  return relation === other?.[0] && id === other[1]
}

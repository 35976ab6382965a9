import { type PageState, type ViewState, viewsBounds } from '../../../../proto/views-json.ts'
import type { ObjectRecord, Visibility } from '../store/record.ts'
import type { Selections } from '../store/selections.ts'
import type { Forest, ForestListener } from '../tree/forest.ts'
import { bundleId, type Entry, type Family, Node, readBundleId } from '../tree/forest-node.ts'
import type { ReadQuery } from '../tree/query.ts'
import { wordsOf } from '../tree/severity.ts'
import type { Moved } from '../tree/visible-records.ts'
import { Page, type PageSource, type PageWanted } from './pages.ts'
import { isSameRow, type RowParts, rowJson, rowParts, type SentRow, sentRow } from './rows.ts'
import { keyedPart, type Update, Updates } from './updates.ts'
import type { ForestViewing, View } from './view.ts'
import { ViewAside } from './view-aside.ts'
import { ViewCauses } from './view-causes.ts'
import { ViewLinks } from './view-links.ts'

export interface ForestViewComponents extends ForestViewing {
  readonly selections: Selections
  /** rows that the view may have now */
  readonly maxRows: () => number
  /** links that these rows may have now */
  readonly maxLinks: () => number
}

/** One subscription to a forest: its pages, and what was sent of them. */
export class ForestView implements View, ForestListener {
  readonly asked = 0
  readonly #components: ForestViewComponents
  readonly #query: ReadQuery
  readonly #updates: Updates
  readonly #pages = new Map<string, Page | { readonly wanted: PageWanted }>()
  readonly #sentRows = new Map<string, SentRow>()
  /** rows among them that may differ now */
  readonly #touchedRows = new Set<string>()
  readonly #sentKinds = new Map<string, string>()
  #forest: Forest | undefined
  readonly #links: ViewLinks
  readonly #causes: ViewCauses
  readonly #asideBelow: ViewAside
  /** kinds that are set aside, `group/Kind` */
  #aside: readonly string[] = []
  /** objects that those of the view `object` are linked with: rows that are on no page */
  readonly #beside = new Map<string, Node>()
  /** rows that the view may have besides those on its pages */
  #roomBeside = 0

  constructor(components: ForestViewComponents, query: ReadQuery) {
    const { clock, onDue, send } = components
    this.#components = components
    this.#query = query
    this.#causes = new ViewCauses(components)
    this.#asideBelow = new ViewAside(components)
    this.#links = new ViewLinks(components, () => this.#updates.request())
    const turn = () => this.#forest?.visible.run
    this.#updates = new Updates({ clock, turn, onDue, write: (update) => this.#write(update), send })
    this.#pages.set('', { wanted: { limit: query.limit, offset: 0, sort: query.sort } })
  }

  get rows(): number {
    return this.#sentRows.size
  }

  get links(): number {
    return this.#links.count
  }

  show(visibility: Visibility): void {
    this.#leaveForest() // first: the next forest takes its room
    const { forests, user } = this.#components
    const forest = forests.take(visibility, this.#query, user)
    this.#forest = forest
    forest.listeners.add(this)
    this.#causes.reset()
    this.#touchRows(this.#sentRows.keys())
    this.#updates.request()
  }

  setState(state: ViewState): void {
    this.#aside = state.aside?.map(([kind]) => kind) ?? []
    this.#updates.setState(state)
  }

  page(id: string, limit: number, offset = 0): void {
    const { maxPages, maxLimit } = viewsBounds
    const { sort } = this.#query
    this.#closePage(id)
    this.#touchRows([id]) // only open nodes show links
    this.#updates.pageOpened(id)
    if (limit > 0 && this.#pages.size < maxPages)
      this.#pages.set(id, { wanted: { limit: Math.min(limit, maxLimit), offset, sort } })
    else this.#updates.pageRefused(id)
    this.#updates.request()
  }

  taken(seq: number): void {
    this.#updates.taken(seq)
  }

  close(): void {
    this.#updates.close()
    this.#links.close()
    for (const id of [...this.#pages.keys()]) this.#closePage(id)
    this.#leaveForest()
  }

  touched(child: Node, parent: Node): void {
    this.#causes.childChanged(parent.id)
    const bundle = bundleId(parent.id, child.kind)
    const pages = [this.#pages.get(parent.id), this.#pages.get(bundle)]
    for (const page of pages) if (page instanceof Page) page.touch(child)
    this.#touchRows([child.id, bundle])
    if (this.#links.size > 0 || pages.some(Boolean) || this.#pages.has(child.id)) this.#updates.request()
  }

  rebundled(family: Family): void {
    const pages = [this.#pages.get(family.parent.id), this.#pages.get(family.id)]
    for (const page of pages) if (page instanceof Page) page.scanAnew()
    this.#touchRows(family.members.map(({ id }) => id))
    if (pages.some(Boolean)) this.#updates.request()
  }

  settled(): void {
    this.#updates.request()
  }

  moved({ uids, namespaces, isLinked }: Moved): void {
    const beside = this.#beside.size > 0 ? uids.filter((uid) => this.#beside.has(uid)) : []
    this.#touchRows(beside)
    const isOther =
      (isLinked && this.#links.size > 0) ||
      (namespaces.length > 0 || isLinked ? this.#causes.mayChange(namespaces) : false)
    if (beside.length > 0 || isOther) this.#updates.request()
  }

  #leaveForest(): void {
    const forest = this.#forest
    this.#forest = undefined
    forest?.listeners.delete(this)
    if (forest) this.#components.forests.release(forest, this.#components.user)
  }

  #touchRows(ids: Iterable<string>): void {
    for (const id of ids) if (this.#sentRows.has(id)) this.#touchedRows.add(id)
  }

  #closePage(id: string): void {
    const page = this.#pages.get(id)
    if (page instanceof Page) page.close()
    this.#pages.delete(id)
  }

  #write(update: Update): boolean | undefined {
    const forest = this.#forest
    if (!forest?.isSettled) return undefined
    const pages = this.#upToDate(forest)
    if (![...pages.values()].every((page) => page.isScanned)) return undefined
    const shown = new Map<string, Entry>()
    for (const page of pages.values()) for (const entry of page.order) shown.set(entry.id, entry)
    const isLinked = this.#link(forest, shown)
    for (const [id, node] of this.#updateBeside(forest, shown)) shown.set(id, node)
    const { changed, isWhole } = this.#causes.update(forest, shown)
    const below = this.#asideBelow.update(forest, shown, this.#aside)
    this.#touchRows([...changed, ...below.changed])
    const isWritten = this.#writeRemoved(update, shown) && this.#writePages(update, pages) && this.#writeBeside(update)
    return isWritten && isLinked && isWhole && below.isWhole
  }

  #upToDate(forest: Forest): Map<string, Page> {
    const { scans } = forest.visible
    const pages = new Map<string, Page>()
    for (const [id, known] of this.#pages) {
      const source = sourceOf(id, forest)
      if (!source) {
        this.#closePage(id)
        this.#touchRows([id])
        this.#updates.pageRemoved(id)
        continue
      }
      const isNew = !(known instanceof Page)
      const page = isNew ? new Page(scans, source, known.wanted, () => this.#updates.request()) : known
      if (page.source.node !== source.node) page.scanAnew(source)
      this.#pages.set(id, page)
      pages.set(id, page)
    }
    let room = this.#components.maxRows()
    for (const page of pages.values()) room -= page.update(room)
    this.#roomBeside = room
    return pages
  }

  /**
   * Reads links of open nodes, and of objects that are asked for by name.
   *
   * @returns true if all were read: else some links may be out of date
   */
  #link(forest: Forest, shown: ReadonlyMap<string, Entry>): boolean {
    const open = [...this.#pages.keys()].flatMap((id) => (shown.has(id) && forest.node(id)?.record) || [])
    const named = this.#named(shown).filter((record) => !this.#pages.has(record.uid))
    const { changed, isWhole } = this.#links.update(forest, [...open, ...named])
    this.#touchRows(changed)
    return isWhole
  }

  /** Objects that the view `object` asks for. */
  #named(shown: ReadonlyMap<string, Entry>): readonly ObjectRecord[] {
    const { view, objects } = this.#query
    if (view !== 'object') return []
    return [...shown.values()].flatMap(({ record }) => (record && objects?.has(record) ? record : []))
  }

  /**
   * Updates the rows that are on no page, as many as there is room for.
   *
   * @returns these rows
   */
  #updateBeside(forest: Forest, shown: ReadonlyMap<string, Entry>): ReadonlyMap<string, Node> {
    const { records } = this.#components
    const wanted = new Set<string>()
    for (const { uid } of this.#named(shown)) for (const [, id] of this.#links.of(uid)) if (id !== '') wanted.add(id)
    for (const id of this.#beside.keys()) if (!wanted.has(id) || shown.has(id)) this.#beside.delete(id)
    for (const id of wanted) {
      const record = records.get(id)
      const known = this.#beside.get(id)
      if (shown.has(id) || !record || !forest.visible.sees(record)) this.#beside.delete(id)
      else if (known?.record !== record && (known || this.#beside.size < this.#roomBeside)) {
        this.#beside.set(id, new Node(record))
        this.#touchRows([id])
      }
    }
    return this.#beside
  }

  #writeBeside(update: Update): boolean {
    for (const node of this.#beside.values()) if (!this.#writeRow(update, node)) return false
    return true
  }

  /** Writes removed rows first: it is most urgent that they are no longer seen. */
  #writeRemoved(update: Update, shown: ReadonlyMap<string, Entry>): boolean {
    for (const id of this.#sentRows.keys()) {
      if (shown.has(id)) continue
      if (!update.add(['gone', JSON.stringify(id)])) return false
      this.#sentRows.delete(id)
      this.#touchedRows.delete(id)
    }
    return update.refusals()
  }

  #writePages(update: Update, pages: ReadonlyMap<string, Page>): boolean {
    for (const [id, page] of pages) {
      const { order } = page
      for (const entry of order) if (!this.#writeRow(update, entry)) return false
      if (!update.page(id, pageState(page, order, (this.#forest as Forest).side))) return false
    }
    return true
  }

  #writeRow(update: Update, entry: Entry): boolean {
    const sent = this.#sentRows.get(entry.id)
    if (sent && !this.#touchedRows.has(entry.id)) return true
    const parts = this.#partsOf(entry)
    if (!sent || !isSameRow(sent, parts)) {
      const kind = this.#unsentKind(entry)
      if (!update.add(['rows', rowJson(entry, parts)], ...(kind ? [['kinds', kind] as const] : []))) return false
      if (kind) this.#sentKinds.set(entry.kind, kind)
    }
    this.#sentRows.set(entry.id, sentRow(parts))
    this.#touchedRows.delete(entry.id)
    return true
  }

  #partsOf(entry: Entry): RowParts {
    const { visible, side } = this.#forest as Forest
    const { id } = entry
    const [links, cause, aside] = [this.#links.of(id), this.#causes.of(id), this.#asideBelow.of(id)]
    return rowParts(entry, { visible, side, links, cause, aside })
  }

  #unsentKind({ record }: Entry): string | undefined {
    if (!record) return undefined
    const { key, version, plural } = record.kind
    const kind = keyedPart(key, [version, plural])
    return kind === this.#sentKinds.get(key) ? undefined : kind
  }
}

/** @returns undefined: the caller sees no such node, or it is not one row */
function sourceOf(id: string, forest: Forest): PageSource | undefined {
  const bundle = readBundleId(id)
  const node = forest.node(bundle ? bundle.parent : id)
  if (!node || !bundle) return node && { node, kind: undefined }
  const isThere = node.familyOf(bundle.kind)?.isBundle
  return isThere ? { node, kind: bundle.kind } : undefined
}

function pageState(page: Page, order: readonly Entry[], side: Forest['side']): PageState {
  const { node, kind } = page.source
  const words = wordsOf(side)
  const counts = node.counts(kind).flatMap((count, severity) => (count > 0 ? [[words[severity], count] as const] : []))
  const { offset: from } = page.wanted
  const more = Math.max(0, page.size - from - order.length)
  const ids = order.map(({ id }) => id)
  return { order: ids, counts: Object.fromEntries(counts), more, ...(from > 0 ? { from } : {}) }
}

import {
  type ArgoWord,
  type EventRow,
  type PageState,
  type Row,
  type Update,
  type ViewState,
  viewsBounds,
} from '../../../../proto/views-json.ts'
import { BadAnswer } from '../../../command/bad-answer.ts'

/** Children of a row that are requested. */
export const childrenLimit = 50

/** rows, events and nodes that are kept: the bound of a view (doc/guide/views.md), and as many again that are on their way */
const maxKept = 2 * viewsBounds.maxRows
/** kinds of a cluster that are kept: agentk follows 300 */
const maxKinds = 1000
/** characters of all kept entries, as JSON */
const maxCharacters = 32 * 1024 * 1024

const unknownState: ViewState = { is: 'syncing', since: 0 }

/** A bounded map that counts the characters of its entries as JSON. */
class Kept<Value> extends Map<string, Value> {
  readonly #what: string
  readonly #most: number
  characters = 0

  constructor(what: string, most: number) {
    super()
    this.#what = what
    this.#most = most
  }

  /** @throws BadAnswer when there are too many entries */
  override set(key: string, value: Value): this {
    this.delete(key)
    if (this.size === this.#most) throw new BadAnswer(`it has more than ${this.#most} ${this.#what}`)
    this.characters += charactersOf(key, value)
    return super.set(key, value)
  }

  override delete(key: string): boolean {
    const value = this.get(key)
    if (value !== undefined) this.characters -= charactersOf(key, value)
    return super.delete(key)
  }

  override clear(): void {
    this.characters = 0
    super.clear()
  }
}

function charactersOf(key: string, value: unknown): number {
  return key.length + JSON.stringify(value).length
}

/** Returns kas' verdict of a row. */
export function verdictOf({ h }: Row): ArgoWord {
  return h?.[2] ?? ''
}

/** Sorts rows by the begin of their causes, the youngest first; rows without a cause come last, in their order. */
export function byOnset(rows: readonly Row[]): readonly Row[] {
  const onset = ({ z }: Row) => z?.since ?? Number.NEGATIVE_INFINITY
  return [...rows].sort((one, other) => onset(other) - onset(one) || 0)
}

/** Current content of one view, from all of its updates. */
export class ShownView {
  readonly rows = new Kept<Row>('rows', maxKept)
  readonly pages = new Kept<PageState>('pages', maxKept)
  readonly kinds = new Kept<readonly [version: string, plural: string]>('kinds', maxKinds)
  readonly events = new Kept<EventRow>('events', maxKept)
  /** nodes without a page, or without one for this caller */
  readonly refused = new Kept<true>('nodes', maxKept)
  /** state that the agent reported last; `syncing` before the first report */
  state = unknownState
  /** number of the last update; 0: there was none */
  seq = 0
  /** time of the last update by the agent's clock, in ms since 1970 */
  at = 0
  /** by how much the agent's clock is ahead of the local one, in ms */
  ahead = 0
  /** sorts the root's rows; undefined: in the agent's order */
  arrange: ((rows: readonly Row[]) => readonly Row[]) | undefined

  /** @throws BadAnswer when the view exceeds its bounds */
  apply({ seq, at, rows = [], gone = [], events = [], pages = {}, kinds = {}, state }: Update): void {
    if (seq === 1) this.#forget()
    this.seq = seq
    this.at = at
    for (const row of rows) this.rows.set(row.u, row)
    for (const id of gone) {
      this.rows.delete(id)
      this.events.delete(id)
    }
    for (const event of events) this.events.set(event.u, event)
    for (const [node, page] of Object.entries(pages)) {
      if (page) {
        this.pages.set(node, page)
        this.refused.delete(node)
      } else {
        this.pages.delete(node)
        this.refused.set(node, true)
      }
    }
    for (const [kind, [version, plural]] of Object.entries(kinds)) this.kinds.set(kind, [version, plural])
    if (state) this.state = state
    const characters = this.#tables.reduce((sum, table) => sum + table.characters, 0)
    if (characters > maxCharacters) throw new BadAnswer(`it has more than ${maxCharacters} characters`)
  }

  get #tables(): readonly Kept<unknown>[] {
    return [this.rows, this.pages, this.kinds, this.events, this.refused]
  }

  /** Children of the root by verdict, including those that are not shown. */
  get counts(): Readonly<Partial<Record<ArgoWord, number>>> {
    return this.pages.get('')?.counts ?? {}
  }

  children(node: string): readonly Row[] {
    const order = this.pages.get(node)?.order ?? []
    const rows = order.flatMap((id) => this.rows.get(id) ?? [])
    return node === '' && this.arrange ? this.arrange(rows) : rows
  }

  eventsOf(node: string): readonly EventRow[] {
    const order = this.pages.get(node)?.order ?? []
    return order.flatMap((id) => this.events.get(id) ?? [])
  }

  /**
   * Lists rows whose children are to be requested, from the root on, up to the bounds of a view.
   *
   * @param opens - returns true if the children of a row are shown, too
   */
  pagesToAsk(opens: (row: Row) => boolean): string[] {
    const wanted: string[] = []
    let rows = 0
    const queue = ['']
    for (let node = queue.shift(); node !== undefined; node = queue.shift()) {
      const children = this.children(node)
      rows += children.length
      for (const row of children) {
        if (!row.c || !opens(row)) continue
        if (wanted.length + 1 >= viewsBounds.maxPages || rows + childrenLimit > viewsBounds.maxRows) return wanted
        rows += this.pages.has(row.u) ? 0 : Math.min(row.c, childrenLimit)
        wanted.push(row.u)
        queue.push(row.u)
      }
    }
    return wanted
  }

  #forget(): void {
    for (const table of this.#tables) table.clear()
    this.state = unknownState
  }
}

/** True for a group of objects, such as an application. */
export const isGroup = ({ u }: Row) => u.startsWith('g:')

/** True for an owner that is not shown: objects below it are roots themselves. */
export const isPlaceholder = ({ u }: Row) => u.startsWith('o:')

/** True for a row whose children are judged instead of it. */
export const isOpened = (row: Row) => isGroup(row) || isPlaceholder(row)

/** True for a row that stands for many objects of one kind. */
export const isBundle = ({ u }: Row) => u.startsWith('b:')

/** True for one of the objects of a bundle. */
export const isInBundle = ({ p = '' }: Row) => p.startsWith('b:')

/** Levels from the root to a bundle in a group. An agent may send anything, also circles. */
const maxRootDepth = 3

/** Lists roots as people count them: the members of open groups and bundles count one by one. */
export function rootsOf(model: ShownView, node = '', depth = 1): readonly Row[] {
  return model.children(node).flatMap((row) => {
    const isOpen = (isOpened(row) || isBundle(row)) && model.pages.has(row.u) && depth < maxRootDepth
    return isOpen ? rootsOf(model, row.u, depth + 1) : [row]
  })
}

/** Counts roots by verdict, including those that are on no page. */
export function rootCounts(model: ShownView): Readonly<Partial<Record<ArgoWord, number>>> {
  const counts: Partial<Record<ArgoWord, number>> = { ...model.counts }
  const add = (word: ArgoWord, by: number) => {
    counts[word] = Math.max(0, (counts[word] ?? 0) + by)
  }
  for (const group of model.children('').filter((row) => isOpened(row))) {
    const page = model.pages.get(group.u)
    if (!page) continue
    add(verdictOf(group), -1)
    for (const [word, count] of Object.entries(page.counts)) add(word as ArgoWord, count)
  }
  return counts
}

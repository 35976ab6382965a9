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

/** Children of a row that are asked for. */
export const childrenLimit = 50

/** rows, events and nodes that are kept: what a view may have (doc/views.md), and as much again that is on its way */
const maxKept = 2 * viewsBounds.maxRows
/** kinds of a cluster that are kept: agentk follows 300 */
const maxKinds = 1000
/** characters of all of it, as JSON */
const maxCharacters = 32 * 1024 * 1024

const unknownState: ViewState = { is: 'syncing', since: 0 }

/** So many entries at most, and how many characters they are as JSON. */
class Kept<Value> extends Map<string, Value> {
  readonly #what: string
  readonly #most: number
  characters = 0

  constructor(what: string, most: number) {
    super()
    this.#what = what
    this.#most = most
  }

  /** @throws BadAnswer when there are too many */
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

/** The verdict of kas. */
export function verdictOf({ h }: Row): ArgoWord {
  return h?.[2] ?? ''
}

/** Rows by when their causes began, the youngest first; rows without a cause last, in the order that they have. */
export function byOnset(rows: readonly Row[]): readonly Row[] {
  const onset = ({ z }: Row) => z?.since ?? Number.NEGATIVE_INFINITY
  return [...rows].sort((one, other) => onset(other) - onset(one) || 0)
}

/** What one view shows now: updates, put together. */
export class ShownView {
  readonly rows = new Kept<Row>('rows', maxKept)
  readonly pages = new Kept<PageState>('pages', maxKept)
  readonly kinds = new Kept<readonly [version: string, plural: string]>('kinds', maxKinds)
  readonly events = new Kept<EventRow>('events', maxKept)
  /** nodes that have no page, or none for the caller */
  readonly refused = new Kept<true>('nodes', maxKept)
  /** of the agent; `syncing` before its first word */
  state = unknownState
  /** of the last update; 0: there was none */
  seq = 0
  /** ms since 1970, of the agent's clock */
  at = 0
  /** of it, before our own clock. ms */
  ahead = 0
  /** how the root's rows are put in order here; undefined: as the agent has them */
  arrange: ((rows: readonly Row[]) => readonly Row[]) | undefined

  /** @throws BadAnswer when that is more than a view may have */
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

  /** Of the root, how many have which verdict: those that are not shown are among them. */
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
   * Rows whose children are to be asked for, from the root on, as many as a view may have.
   *
   * @param opens - whether the children of a row are shown, too
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

/** What several objects stand in, as an application. */
export const isGroup = ({ u }: Row) => u.startsWith('g:')

/** An owner that is not shown: what is below it is a root of its own. */
export const isPlaceholder = ({ u }: Row) => u.startsWith('o:')

/** What is in it is judged, and not it. */
export const isOpened = (row: Row) => isGroup(row) || isPlaceholder(row)

/** What stands for many alike. */
export const isBundle = ({ u }: Row) => u.startsWith('b:')

/** One of many that one row stands for. */
export const isInBundle = ({ p = '' }: Row) => p.startsWith('b:')

/** From the root to a bundle in a group. An agent may say anything, circles too. */
const maxRootDepth = 3

/** Roots as people count them: those of groups that are opened, and of bundles, each by itself. */
export function rootsOf(model: ShownView, node = '', depth = 1): readonly Row[] {
  return model.children(node).flatMap((row) => {
    const isOpen = (isOpened(row) || isBundle(row)) && model.pages.has(row.u) && depth < maxRootDepth
    return isOpen ? rootsOf(model, row.u, depth + 1) : [row]
  })
}

/** Roots by verdict, those that are on no page among them. */
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

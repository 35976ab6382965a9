import {
  type ArgoWord,
  type EventRow,
  type PageState,
  type Query,
  type Row,
  type Update,
  type ViewState,
  viewsBounds,
} from '../../../proto/views-json.ts'
import { BadAnswer } from '../bad-answer.ts'
import type { Endpoint } from './endpoint.ts'
import { ViewClient } from './view-client.ts'
import type { ViewsContext } from './views-command.ts'

/** Children of a row that are asked for. */
const pageLimit = 50

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
  /** ms since 1970, of the agent's clock */
  at = 0

  /** @throws BadAnswer when that is more than a view may have */
  apply({ seq, at, rows = [], gone = [], events = [], pages = {}, kinds = {}, state }: Update): void {
    if (seq === 1) this.#forget()
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
    return order.flatMap((id) => this.rows.get(id) ?? [])
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
        if (wanted.length + 1 >= viewsBounds.maxPages || rows + pageLimit > viewsBounds.maxRows) return wanted
        rows += this.pages.has(row.u) ? 0 : Math.min(row.c, pageLimit)
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

export interface ShownViewOptions {
  readonly query: Query
  /** whether the children of a row are shown, too */
  readonly opens: (row: Row) => boolean
  /** in place of children: pages that are asked for from the start, whole */
  readonly nodes?: readonly string[] | undefined
  /** @param isWhole - all that is asked for is there. @returns true: that is enough */
  readonly onChange: (shown: ShownView, isWhole: boolean) => boolean
  /** the connection was lost */
  readonly onLost?: (why: string) => void
  /** until then. */
  readonly signal: AbortSignal
}

/**
 * Follows a view, with the children of what it shows, until that is enough or the signal aborts.
 *
 * @throws ViewRefused
 */
export async function showView(
  { clock, random }: Pick<ViewsContext, 'clock' | 'random'>,
  endpoint: Endpoint,
  { query, opens, nodes, onChange, onLost, signal }: ShownViewOptions,
): Promise<void> {
  const enough = new AbortController()
  const shown = new ShownView()
  const client = new ViewClient(
    {
      onUpdate: (update) => {
        shown.apply(update)
        const wanted = nodes ?? shown.pagesToAsk(opens)
        if (!nodes) client.showChildren(new Set(wanted), pageLimit)
        const isThere = (node: string) => shown.pages.has(node) || (nodes !== undefined && shown.refused.has(node))
        const isWhole = shown.state.is !== 'syncing' && wanted.every(isThere)
        if (onChange(shown, isWhole)) enough.abort()
      },
      onLost: (why) => onLost?.(why),
      clock,
      random,
    },
    endpoint,
  )
  if (nodes) client.showChildren(new Set(nodes), viewsBounds.maxLimit)
  await client.run(query, AbortSignal.any([signal, enough.signal]))
}

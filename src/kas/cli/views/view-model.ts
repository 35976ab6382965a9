import {
  type ArgoWord,
  type EventRow,
  type PageState,
  type Row,
  type Update,
  type ViewState,
  viewsBounds,
} from '../../../proto/views-json.ts'
import { BadAnswer } from '../bad-answer.ts'

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
export class ViewModel {
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

  #forget(): void {
    for (const table of this.#tables) table.clear()
    this.state = unknownState
  }
}

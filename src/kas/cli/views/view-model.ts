import type { ArgoWord, EventRow, PageState, Row, Update, ViewState } from '../../../proto/views-json.ts'

const unknownState: ViewState = { is: 'syncing', since: 0 }

/** What one view shows now: updates, put together. */
export class ViewModel {
  readonly rows = new Map<string, Row>()
  readonly pages = new Map<string, PageState>()
  readonly kinds = new Map<string, readonly [version: string, plural: string]>()
  readonly events = new Map<string, EventRow>()
  /** nodes that have no page, or none for the caller */
  readonly refused = new Set<string>()
  /** of the agent; `syncing` before its first word */
  state = unknownState
  /** ms since 1970, of the agent's clock */
  at = 0

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
        this.refused.add(node)
      }
    }
    for (const [kind, [version, plural]] of Object.entries(kinds)) this.kinds.set(kind, [version, plural])
    if (state) this.state = state
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
    for (const table of [this.rows, this.pages, this.kinds, this.events, this.refused]) table.clear()
    this.state = unknownState
  }
}

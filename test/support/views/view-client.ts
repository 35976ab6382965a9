import type { ViewOut } from '../../../src/agentk/modules/views/view/view-host.ts'
import type { KasError } from '../../../src/lib/errors.ts'
import type { EventRow, PageState, Row, Update, ViewState } from '../../../src/proto/views-json.ts'

/** A browser's state of a view. */
export class ViewClient implements ViewOut {
  readonly updates: Update[] = []
  /** text of each update */
  readonly texts: string[] = []
  readonly rows = new Map<string, Row>()
  readonly events = new Map<string, EventRow>()
  readonly pages = new Map<string, PageState>()
  readonly kinds = new Map<string, readonly [string, string]>()
  state: ViewState | undefined
  error: KasError | undefined
  /** called with each update, to acknowledge it */
  onTaken: ((seq: number) => void) | undefined

  update(seq: number, json: Uint8Array): void {
    const text = Buffer.from(json).toString()
    const update = JSON.parse(text) as Update
    if (update.seq !== seq) throw new Error(`seq ${update.seq} came as ${seq}`)
    this.texts.push(text)
    this.updates.push(update)
    for (const row of update.rows ?? []) this.rows.set(row.u, row)
    for (const event of update.events ?? []) this.events.set(event.u, event)
    for (const id of update.gone ?? []) {
      this.rows.delete(id)
      this.events.delete(id)
    }
    for (const [id, page] of Object.entries(update.pages ?? {})) {
      if (page) this.pages.set(id, page)
      else this.pages.delete(id)
    }
    for (const [kind, told] of Object.entries(update.kinds ?? {})) this.kinds.set(kind, told)
    this.state = update.state ?? this.state
    this.onTaken?.(seq)
  }

  ended(error: KasError): void {
    this.error = error
  }

  /** Ids of a page, in their order. */
  order(node = ''): readonly string[] | undefined {
    return this.pages.get(node)?.order
  }
}

import type { Clock } from '../../../../lib/clock.ts'
import { type EventRow, type PageState, type ViewState, viewsBounds } from '../../../../proto/views-json.ts'
import { type AskEvents, AskedEvents } from '../access/asked-events.ts'
import type { FairTurns } from '../store/fair-turns.ts'
import type { EventChange, ReadonlyEvents, Visibility } from '../store/record.ts'
import type { ReadQuery } from '../tree/query.ts'
import { Flush, type Made } from './flush.ts'
import { keyedPart, UpdateWriter } from './update-writer.ts'
import type { View } from './view.ts'

export interface EventsViewComponents {
  readonly clock: Clock
  readonly turns: FairTurns
  readonly events: ReadonlyEvents
  readonly ask: AskEvents
  /** there is room to ask for those of one node more */
  readonly mayAsk: () => boolean
  readonly onDue: () => void
  readonly send: (seq: number, json: Uint8Array) => void
}

/**
 * One subscription to events: the latest Warnings first, as the root's page. The page of an object, by the id that its
 * placeholder has, is of events of any type; so is that of a namespace.
 */
export class EventsView implements View {
  readonly links = 0
  readonly #components: EventsViewComponents
  readonly #query: ReadQuery
  readonly #flush: Flush
  readonly #asked: AskedEvents
  /** pages that there are not, or no more: to be told */
  readonly #refused = new Set<string>()
  /** by uid. Never changed: what is the same object says the same */
  readonly #sent = new Map<string, EventRow>()
  #visibility: Visibility | undefined
  #unsubscribe: (() => void) | undefined
  #limit: number
  /** JSON, by node */
  readonly #sentPages = new Map<string, string>()
  #state = ''
  #sentState = ''

  constructor(components: EventsViewComponents, query: ReadQuery) {
    const { clock, onDue, send } = components
    this.#components = components
    this.#query = query
    this.#limit = query.limit
    this.#asked = new AskedEvents({ clock, onChange: () => this.#flush.request() })
    const inTurn = (action: () => void) => this.#inTurn(action)
    this.#flush = new Flush({ clock, inTurn, onDue, make: (seq) => this.#make(seq), send })
  }

  show(visibility: Visibility): void {
    this.#visibility = visibility
    this.#unsubscribe ??= this.#components.events.onChange((change) => this.#changed(change))
    this.#flush.request()
  }

  setState(state: ViewState): void {
    const json = JSON.stringify(state)
    if (json === this.#state) return
    this.#state = json
    this.#flush.request()
  }

  get rows(): number {
    return this.#sent.size
  }

  get asked(): number {
    return this.#asked.size
  }

  page(node: string, limit: number): void {
    const { ask, mayAsk } = this.#components
    const atMost = Math.min(limit, viewsBounds.maxLimit)
    if (node === '') this.#limit = atMost
    else if (atMost === 0 ? this.#asked.close(node) : !this.#asked.open(node, atMost, mayAsk() ? ask : undefined))
      this.#refuse(node)
    this.#flush.request()
  }

  taken(seq: number): void {
    this.#flush.taken(seq)
  }

  close(): void {
    this.#unsubscribe?.()
    this.#asked.stop()
    this.#flush.close()
  }

  #inTurn(action: () => void): () => void {
    const step = () => {
      action()
      return false
    }
    return this.#components.turns.run(this.#visibility?.key ?? '', step, () => undefined)
  }

  #changed({ before, after }: EventChange): void {
    if ((before && this.#shows(before)) || (after && this.#shows(after))) this.#flush.request()
  }

  #refuse(node: string): void {
    if (this.#refused.size < viewsBounds.maxPages) this.#refused.add(node)
  }

  #shows({ ns, about: [kind, name] }: EventRow): boolean {
    const { namespaces, text, kinds } = this.#query
    if (!this.#visibility?.mayListEvents(ns) || (namespaces && !namespaces.has(ns))) return false
    return (!kinds || kinds.has(kind)) && name.toLowerCase().includes(text)
  }

  #make(seq: number): Made | undefined {
    if (!this.#visibility) return undefined
    const writer = new UpdateWriter()
    const isWhole = this.#write(writer)
    if (writer.isEmpty) return undefined
    return { json: writer.end(seq, this.#components.clock.now()), isPart: !isWhole }
  }

  #write(writer: UpdateWriter): boolean {
    if (this.#state !== this.#sentState) {
      writer.state(this.#state)
      this.#sentState = this.#state
    }
    const shown: EventRow[] = []
    let more = 0
    for (const event of this.#components.events.all()) {
      if (!this.#shows(event)) continue
      if (shown.length < this.#limit) shown.push(event)
      else more++
    }
    const pages = new Map<string, PageState | null>([['', pageOf(shown, more)]])
    const events = new Map(shown.map((event) => [event.u, event]))
    for (const [node, rows, further] of this.#asked.answered()) {
      pages.set(node, rows ? pageOf(rows, further) : null)
      for (const event of rows ?? []) if (!events.has(event.u)) events.set(event.u, event)
    }
    return this.#writeEvents(writer, events) && this.#writePages(writer, pages)
  }

  #writeEvents(writer: UpdateWriter, events: ReadonlyMap<string, EventRow>): boolean {
    for (const id of this.#sent.keys()) {
      if (events.has(id)) continue
      if (!writer.add(['gone', JSON.stringify(id)])) return false
      this.#sent.delete(id)
    }
    for (const event of events.values()) {
      const sent = this.#sent.get(event.u)
      if (sent === event) continue
      const json = JSON.stringify(event)
      if (!sent || json !== JSON.stringify(sent)) {
        if (!writer.add(['events', json])) return false
      }
      this.#sent.set(event.u, event)
    }
    return true
  }

  #writePages(writer: UpdateWriter, pages: ReadonlyMap<string, PageState | null>): boolean {
    for (const [node, page] of pages) {
      const part = keyedPart(node, page)
      if (part === this.#sentPages.get(node)) continue
      if (!writer.add(['pages', part])) return false
      this.#sentPages.set(node, part)
      this.#refused.delete(node)
    }
    for (const id of this.#refused) {
      if (!writer.add(['pages', keyedPart(id, null)])) return false
      this.#refused.delete(id)
      this.#sentPages.delete(id)
    }
    return true
  }
}

function pageOf(events: readonly EventRow[], more: number): PageState {
  return { order: events.map(({ u }) => u), counts: {}, more }
}

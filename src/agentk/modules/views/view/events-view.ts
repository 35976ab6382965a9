import { type EventRow, type PageState, type ViewState, viewsBounds } from '../../../../proto/views-json.ts'
import { type AskEvents, AskedEvents } from '../access/asked-events.ts'
import type { EventChange, ReadonlyEvents, Visibility } from '../store/record.ts'
import type { TimeSlices } from '../store/time-slices.ts'
import type { ReadQuery } from '../tree/query.ts'
import type { RunInTurns } from '../tree/scans.ts'
import { type Update, Updates } from './updates.ts'
import type { View, Viewing } from './view.ts'

export interface EventsViewComponents extends Viewing {
  readonly turns: TimeSlices
  readonly events: ReadonlyEvents
  readonly ask: AskEvents
  /** true if there is room to ask for events of one more node */
  readonly mayAsk: () => boolean
}

/**
 * One subscription to events. The root's page has the latest Warnings, the latest first. The page of an object, by the
 * id that its placeholder has, has events of any type; so has the page of a namespace.
 */
export class EventsView implements View {
  readonly links = 0
  readonly #components: EventsViewComponents
  readonly #query: ReadQuery
  readonly #updates: Updates
  readonly #asked: AskedEvents
  /** events that were sent, by uid. They never change: the same object has the same JSON */
  readonly #sent = new Map<string, EventRow>()
  #visibility: Visibility | undefined
  #unsubscribe: (() => void) | undefined
  #limit: number

  constructor(components: EventsViewComponents, query: ReadQuery) {
    const { clock, turns, onDue, send } = components
    this.#components = components
    this.#query = query
    this.#limit = query.limit
    this.#asked = new AskedEvents({ clock, onChange: () => this.#updates.request() })
    const run: RunInTurns = (step, done) => turns.run(this.#visibility?.key ?? '', step, done)
    this.#updates = new Updates({ clock, turn: () => run, onDue, write: (update) => this.#write(update), send })
  }

  show(visibility: Visibility): void {
    this.#visibility = visibility
    this.#unsubscribe ??= this.#components.events.onChange((change) => this.#changed(change))
    this.#updates.request()
  }

  setState(state: ViewState): void {
    this.#updates.setState(state)
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
      this.#updates.pageRefused(node)
    this.#updates.request()
  }

  taken(seq: number): void {
    this.#updates.taken(seq)
  }

  close(): void {
    this.#unsubscribe?.()
    this.#asked.stop()
    this.#updates.close()
  }

  #changed({ before, after }: EventChange): void {
    if ((before && this.#shows(before)) || (after && this.#shows(after))) this.#updates.request()
  }

  #shows({ ns, about: [kind, name] }: EventRow): boolean {
    const { namespaces, text, kinds } = this.#query
    if (!this.#visibility?.mayListEvents(ns) || (namespaces && !namespaces.has(ns))) return false
    return (!kinds || kinds.has(kind)) && name.toLowerCase().includes(text)
  }

  #write(update: Update): boolean | undefined {
    if (!this.#visibility) return undefined
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
    return this.#writeEvents(update, events) && this.#writePages(update, pages)
  }

  #writeEvents(update: Update, events: ReadonlyMap<string, EventRow>): boolean {
    for (const id of this.#sent.keys()) {
      if (events.has(id)) continue
      if (!update.add(['gone', JSON.stringify(id)])) return false
      this.#sent.delete(id)
    }
    for (const event of events.values()) {
      const sent = this.#sent.get(event.u)
      if (sent === event) continue
      const json = JSON.stringify(event)
      if (!sent || json !== JSON.stringify(sent)) {
        if (!update.add(['events', json])) return false
      }
      this.#sent.set(event.u, event)
    }
    return true
  }

  #writePages(update: Update, pages: ReadonlyMap<string, PageState | null>): boolean {
    for (const [node, page] of pages) {
      if (!update.page(node, page)) return false
    }
    return update.refusals()
  }
}

function pageOf(events: readonly EventRow[], more: number): PageState {
  return { order: events.map(({ u }) => u), counts: {}, more }
}

import type { Clock } from '../../../lib/clock.ts'
import { type EventRow, type PageState, type ViewState, viewsBounds } from '../../../proto/views-json.ts'
import { Flush, type Made } from './flush.ts'
import type { ReadQuery } from './query.ts'
import type { EventChange, ReadonlyEvents, Visibility } from './record.ts'
import { keyedPart, UpdateWriter } from './update-writer.ts'

export interface EventsViewComponents {
  readonly clock: Clock
  readonly events: ReadonlyEvents
  readonly onDue: () => void
  readonly send: (seq: number, json: Uint8Array) => void
}

/** One subscription to events: the latest first. Its one page is the root's. */
export class EventsView {
  readonly #components: EventsViewComponents
  readonly #query: ReadQuery
  readonly #flush: Flush
  readonly #refused = new Set<string>()
  /** JSON, by uid */
  readonly #sent = new Map<string, string>()
  #visibility: Visibility | undefined
  #limit: number
  #sentPage = ''
  #state = ''
  #sentState = ''

  constructor(components: EventsViewComponents, query: ReadQuery) {
    const { clock, onDue, send } = components
    this.#components = components
    this.#query = query
    this.#limit = query.limit
    this.#flush = new Flush({ clock, onDue, make: (seq) => this.#make(seq), send })
  }

  show(visibility: Visibility): void {
    this.#visibility = visibility
    this.#flush.request()
  }

  setState(state: ViewState): void {
    const json = JSON.stringify(state)
    if (json === this.#state) return
    this.#state = json
    this.#flush.request()
  }

  change({ before, after }: EventChange): void {
    if ((before && this.#shows(before)) || (after && this.#shows(after))) this.#flush.request()
  }

  /** @param limit - 0: closed */
  page(node: string, limit: number): void {
    if (node === '') this.#limit = Math.min(limit, viewsBounds.maxLimit)
    else if (this.#refused.size < viewsBounds.maxPages) this.#refused.add(node)
    this.#flush.request()
  }

  taken(seq: number): void {
    this.#flush.taken(seq)
  }

  close(): void {
    this.#flush.close()
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
    const all = [...this.#components.events.all()].filter((event) => this.#shows(event)).sort(compareEvents)
    const order = all.slice(0, this.#limit)
    const ids = order.map(({ u }) => u)
    const shown = new Set(ids)
    for (const id of this.#sent.keys()) {
      if (shown.has(id)) continue
      if (!writer.add(['gone', JSON.stringify(id)])) return false
      this.#sent.delete(id)
    }
    for (const event of order) {
      const json = JSON.stringify(event)
      if (json === this.#sent.get(event.u)) continue
      if (!writer.add(['events', json])) return false
      this.#sent.set(event.u, json)
    }
    const page = keyedPart('', { order: ids, counts: {}, more: all.length - order.length } satisfies PageState)
    if (page !== this.#sentPage && !writer.add(['pages', page])) return false
    this.#sentPage = page
    for (const id of this.#refused) {
      if (!writer.add(['pages', keyedPart(id, null)])) return false
      this.#refused.delete(id)
    }
    return true
  }
}

function compareEvents(one: EventRow, other: EventRow): number {
  return other.at - one.at || (one.u < other.u ? -1 : 1)
}

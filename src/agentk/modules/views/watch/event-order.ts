import type { EventRow } from '../../../../proto/views-json.ts'
import { compareEvents } from '../projection/event.ts'

/** Events of different uids, kept in order: all views read them, and changes are few. */
export class EventOrder {
  readonly #events: EventRow[] = []

  all(): Iterable<EventRow> {
    return this.#events.values()
  }

  add(event: EventRow): void {
    this.#events.splice(this.#placeOf(event), 0, event)
  }

  delete(event: EventRow): void {
    const place = this.#placeOf(event)
    if (this.#events[place]?.u === event.u) this.#events.splice(place, 1)
  }

  /** At most `count` of those that it takes, the oldest first. */
  oldest(count: number, isIt: (event: EventRow) => boolean): EventRow[] {
    const found: EventRow[] = []
    for (let i = this.#events.length - 1; i >= 0 && found.length < count; i--) {
      const event = this.#events[i] as EventRow
      if (isIt(event)) found.push(event)
    }
    return found
  }

  /** Where it is, or would be. */
  #placeOf(event: EventRow): number {
    let [from, to] = [0, this.#events.length]
    while (from < to) {
      const middle = (from + to) >>> 1
      if (compareEvents(this.#events[middle] as EventRow, event) < 0) from = middle + 1
      else to = middle
    }
    return from
  }
}

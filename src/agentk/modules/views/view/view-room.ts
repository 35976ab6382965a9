import { KasError } from '../../../../lib/errors.ts'
import { viewsBounds } from '../../../../proto/views-json.ts'
import type { Visibility } from '../store/record.ts'

/** How much there may be at once. One user leaves room for others; those let in as the agent are many, and no one user. */
export interface ViewRoomOptions {
  readonly maxViews: number
  readonly maxViewsPerUser: number
  /** different rights of viewers: each change of an object is compared with each of them */
  readonly maxVisibilities: number
  readonly maxVisibilitiesPerUser: number
  /** objects and namespaces whose events are asked for */
  readonly maxAsked: number
  readonly maxAskedPerUser: number
  /** that viewers have: some 500 bytes each */
  readonly maxRows: number
  readonly maxRowsPerUser: number
  /** of open nodes, that views keep: some 120 bytes each */
  readonly maxLinks: number
  readonly maxLinksPerUser: number
}

/** Rows that each view may have, however many others there are. */
export const leastRows = 100

export const viewRoomDefaults: ViewRoomOptions = {
  maxViews: viewsBounds.maxViewsPerAgent,
  maxViewsPerUser: 200,
  maxVisibilities: 128,
  maxVisibilitiesPerUser: 16,
  maxAsked: 100,
  maxAskedPerUser: 20,
  maxRows: 150_000,
  maxRowsPerUser: 40_000,
  maxLinks: 300_000,
  maxLinksPerUser: 100_000,
}

/** A view that is open. */
export interface Seat {
  /** in the cluster; undefined: as the agent */
  readonly user: string | undefined
  /** undefined: not known yet */
  readonly visibility: Visibility | undefined
  /** of how many objects and namespaces it asks for events */
  readonly asked: number
  /** that its viewer has */
  readonly rows: number
  /** of its open nodes */
  readonly links: number
}

/** Whether viewers leave room. */
export class ViewRoom {
  readonly #seats: Iterable<Seat>
  readonly #options: ViewRoomOptions

  /** @param seats - all views that are open, whenever it is asked */
  constructor(seats: Iterable<Seat>, options: ViewRoomOptions = viewRoomDefaults) {
    this.#seats = seats
    this.#options = options
  }

  /** @throws KasError TOO_MANY_STREAMS: there is none for one more view of the user */
  checkView(user: string | undefined): void {
    const { maxViews, maxViewsPerUser } = this.#options
    check([...this.#seats].length, maxViews, 'views')
    if (user !== undefined) check(this.#of(user).length, maxViewsPerUser, 'views of one user')
  }

  /** @throws KasError TOO_MANY_STREAMS: there is none for what `seat` is to see from now on */
  checkVisibility(seat: Seat, visibility: Visibility): void {
    const { maxVisibilities, maxVisibilitiesPerUser } = this.#options
    const others = (seats: Iterable<Seat>) => {
      const keys = [...seats].flatMap((one) => (one === seat ? [] : (one.visibility?.key ?? [])))
      return new Set(keys.filter((key) => key !== visibility.key)).size
    }
    check(others(this.#seats), maxVisibilities, 'different rights of viewers')
    if (seat.user !== undefined)
      check(others(this.#of(seat.user)), maxVisibilitiesPerUser, 'different rights of one user')
  }

  /** There is some to ask for events of one more. */
  mayAsk(user: string | undefined): boolean {
    const { maxAsked, maxAskedPerUser } = this.#options
    const sum = (seats: Iterable<Seat>) => [...seats].reduce((all, { asked }) => all + asked, 0)
    return sum(this.#seats) < maxAsked && (user === undefined || sum(this.#of(user)) < maxAskedPerUser)
  }

  /** Rows that `seat` may have, `most` at most: what others leave. */
  rowsFor(seat: Seat, most: number = viewsBounds.maxRows): number {
    const { maxRows, maxRowsPerUser } = this.#options
    const ofOthers = (seats: Iterable<Seat>) => [...seats].reduce((all, one) => all + (one === seat ? 0 : one.rows), 0)
    const left = maxRows - ofOthers(this.#seats)
    const own = seat.user === undefined ? left : maxRowsPerUser - ofOthers(this.#of(seat.user))
    return Math.min(most, Math.max(leastRows, Math.min(left, own)))
  }

  /** Links that `seat` may have: what others leave. */
  linksFor(seat: Seat): number {
    const { maxLinks, maxLinksPerUser } = this.#options
    const ofOthers = (seats: Iterable<Seat>) => [...seats].reduce((all, one) => all + (one === seat ? 0 : one.links), 0)
    const left = maxLinks - ofOthers(this.#seats)
    const own = seat.user === undefined ? left : maxLinksPerUser - ofOthers(this.#of(seat.user))
    return Math.max(0, Math.min(left, own))
  }

  #of(user: string): readonly Seat[] {
    return [...this.#seats].filter((seat) => seat.user === user)
  }
}

function check(taken: number, limit: number, what: string): void {
  if (taken >= limit) throw new KasError({ code: 'TOO_MANY_STREAMS', limit, what })
}

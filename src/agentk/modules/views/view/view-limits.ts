import { KasError, type LimitName } from '../../../../lib/errors.ts'
import { viewsBounds } from '../../../../proto/views-json.ts'
import type { Visibility } from '../store/record.ts'
import type { View } from './view.ts'

/** Bounds of what there may be at once. One caller leaves room for others. */
export interface ViewLimitsOptions {
  /** open views, which callers share */
  readonly maxViews: number
  /** different rights of viewers (`viewer_rights`): each change of an object is compared with each of these */
  readonly maxVisibilities: number
  /** different rights of one user's viewers (`viewer_rights_of_user`) */
  readonly maxVisibilitiesPerUser: number
  /** objects and namespaces whose events are read */
  readonly maxAsked: number
  /** objects and namespaces whose events are read for one user */
  readonly maxAskedPerUser: number
  /** rows that viewers have: some 500 bytes each */
  readonly maxRows: number
  /** rows that one user's viewers have */
  readonly maxRowsPerUser: number
  /** links of open nodes that views keep: some 120 bytes each */
  readonly maxLinks: number
  /** links of open nodes that one user's views keep */
  readonly maxLinksPerUser: number
}

/** Rows that each view may have, regardless of others. */
export const leastRows = 100

export const viewLimitsDefaults: ViewLimitsOptions = {
  maxViews: viewsBounds.maxViewsPerAgent,
  maxVisibilities: 128,
  maxVisibilitiesPerUser: 16,
  maxAsked: 100,
  maxAskedPerUser: 20,
  maxRows: 150_000,
  maxRowsPerUser: 40_000,
  maxLinks: 300_000,
  maxLinksPerUser: 100_000,
}

/** Open view, as it counts. */
export interface CountedView {
  /** key of the caller; for a job, that of the user behind it */
  readonly user: string
  /** undefined: not known yet */
  readonly visibility: Visibility | undefined
  readonly view: Pick<View, 'asked' | 'rows' | 'links'>
}

/** Shares bounds among users: each leaves room for others. */
export class ViewLimits {
  readonly #views: Iterable<CountedView>
  readonly #options: ViewLimitsOptions

  /** @param views - views that are open at each call */
  constructor(views: Iterable<CountedView>, options: ViewLimitsOptions = viewLimitsDefaults) {
    this.#views = views
    this.#options = options
  }

  /** @throws KasError TOO_MANY_STREAMS: there are too many other rights besides those that `counted` gets */
  checkVisibility(counted: CountedView, visibility: Visibility): void {
    const { maxVisibilities, maxVisibilitiesPerUser } = this.#options
    const others = (views: Iterable<CountedView>) => {
      const keys = [...views].flatMap((one) => (one === counted ? [] : (one.visibility?.key ?? [])))
      return new Set(keys.filter((key) => key !== visibility.key)).size
    }
    check(others(this.#views), { name: 'viewer_rights', limit: maxVisibilities, what: 'different rights of viewers' })
    check(others(this.#of(counted.user)), {
      name: 'viewer_rights_of_user',
      limit: maxVisibilitiesPerUser,
      what: 'different rights of one user',
    })
  }

  /** True if the user may read events of one more node. */
  mayAsk(user: string): boolean {
    const { maxAsked, maxAskedPerUser } = this.#options
    const sum = (views: Iterable<CountedView>) => [...views].reduce((all, { view }) => all + view.asked, 0)
    return sum(this.#views) < maxAsked && sum(this.#of(user)) < maxAskedPerUser
  }

  /** Number of rows that `counted` may have, at most `most`. */
  rowsFor(counted: CountedView, most: number = viewsBounds.maxRows): number {
    const { maxRows, maxRowsPerUser } = this.#options
    return Math.min(most, Math.max(leastRows, this.#left(counted, 'rows', [maxRows, maxRowsPerUser])))
  }

  /** Number of links that `counted` may have. */
  linksFor(counted: CountedView): number {
    const { maxLinks, maxLinksPerUser } = this.#options
    return Math.max(0, this.#left(counted, 'links', [maxLinks, maxLinksPerUser]))
  }

  /** Number that other views leave. */
  #left(counted: CountedView, what: 'rows' | 'links', [max, maxPerUser]: readonly [number, number]): number {
    const ofOthers = (views: Iterable<CountedView>) =>
      [...views].reduce((all, one) => all + (one === counted ? 0 : one.view[what]), 0)
    return Math.min(max - ofOthers(this.#views), maxPerUser - ofOthers(this.#of(counted.user)))
  }

  #of(user: string): readonly CountedView[] {
    return [...this.#views].filter((one) => one.user === user)
  }
}

function check(taken: number, bound: { name: LimitName; limit: number; what: string }): void {
  if (taken >= bound.limit) throw new KasError({ code: 'TOO_MANY_STREAMS', ...bound })
}

import type { Safety } from '../../../../../call/call.ts'
import { askedStream, firstOf, isTrue } from '../../../../../kubernetes/request/asked-stream.ts'
import type { Target } from '../../../../../kubernetes/request/target.ts'
import type { RequestHead } from '../../request/request-head.ts'
import type { WatchStart } from './watch-position.ts'

type Query = Target['query']

/** Types whose events cannot be separated: bookmarks that the client did not request could not be removed. */
const unread = /cbor|yaml/i

/** Matches no resourceVersion, or one that an API server reads as 0. */
const any = /^0*$/

/** A client's watch that can go on after a loss. */
export interface WatchQuestion {
  readonly start: WatchStart
  /** query with which it is opened first */
  readonly query: Query
  /**
   * Returns the query with which it is opened again.
   *
   * @param resourceVersion - version from which it goes on
   * @param passedMs - time since it was opened first
   */
  queryFrom(resourceVersion: string, passedMs: number): Query
}

/**
 * Reads a watch that can go on from a request.
 *
 * @param request.safety - other requests than safe ones, such as to pods by `/proxy`, may be answered in any form
 * @returns undefined: the request is no such watch
 */
export function watchQuestion(
  request: { readonly method: string; readonly safety: Safety },
  { path, query }: Pick<Target, 'path' | 'query'>,
  { accept }: Pick<RequestHead, 'accept'>,
): WatchQuestion | undefined {
  if (request.safety !== 'safe' || askedStream(request.method, { path, query }) !== 'watch') return undefined
  if (!isTrue(query, 'watch') || accept.some((types) => unread.test(types))) return undefined
  const resourceVersion = firstOf(query, 'resourceVersion') ?? ''
  const timeoutSeconds = Number(firstOf(query, 'timeoutSeconds') ?? 0)
  const start: WatchStart = {
    resourceVersion: any.test(resourceVersion) ? undefined : resourceVersion,
    sendsInitialEvents: isTrue(query, 'sendInitialEvents'),
    wantsBookmarks: isTrue(query, 'allowWatchBookmarks'),
  }
  const withBookmarks = changed(query, { allowWatchBookmarks: 'true' })
  return {
    start,
    query: withBookmarks,
    queryFrom: (from, passedMs) =>
      changed(withBookmarks, {
        resourceVersion: from,
        resourceVersionMatch: undefined,
        sendInitialEvents: undefined,
        ...(timeoutSeconds > 0
          ? { timeoutSeconds: String(Math.max(1, Math.round(timeoutSeconds - passedMs / 1000))) }
          : {}),
      }),
  }
}

/** Changes parameters of a query, and keeps it sorted by name. */
function changed(query: Query, values: Readonly<Record<string, string | undefined>>): Query {
  const others = query.filter(([name]) => !Object.hasOwn(values, name))
  const own = Object.entries(values).flatMap(([name, value]): Query => (value === undefined ? [] : [[name, [value]]]))
  return [...others, ...own].sort(([a], [b]) => (a < b ? -1 : 1))
}

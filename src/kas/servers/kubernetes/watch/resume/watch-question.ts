import type { Safety } from '../../../../../call/call.ts'
import { askedStream, firstOf, isTrue } from '../../../../../kubernetes/request/asked-stream.ts'
import type { Target } from '../../../../../kubernetes/request/target.ts'
import type { RequestHead } from '../../request/request-head.ts'
import type { WatchStart } from './watch-position.ts'

type Query = Target['query']

/** Events in these forms cannot be separated: bookmarks that the client did not ask for could not be taken out. */
const unread = /cbor|yaml/i

/** No resourceVersion, or one that an API server reads as 0. */
const any = /^0*$/

/** A watch that can go on, as a client has asked for it. */
export interface WatchQuestion {
  readonly start: WatchStart
  /** how it is asked for first */
  readonly query: Query
  /**
   * How it is asked for again.
   *
   * @param resourceVersion - behind which it goes on
   * @param passedMs - since it was asked for first
   */
  queryFrom(resourceVersion: string, passedMs: number): Query
}

/**
 * @param request.safety - what is no safe GET, as what goes to a pod by `/proxy`, answers as it likes
 * @returns undefined: it is none
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

/** Sorted by name, as before. */
function changed(query: Query, values: Readonly<Record<string, string | undefined>>): Query {
  const others = query.filter(([name]) => !Object.hasOwn(values, name))
  const own = Object.entries(values).flatMap(([name, value]): Query => (value === undefined ? [] : [[name, [value]]]))
  return [...others, ...own].sort(([a], [b]) => (a < b ? -1 : 1))
}

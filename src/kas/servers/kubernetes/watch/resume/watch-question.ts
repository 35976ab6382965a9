import type { Safety } from '../../../../../call/call.ts'
import type { RequestHead } from '../../request/request-head.ts'
import type { Target } from '../../request/target.ts'
import type { WatchStart } from './watch-position.ts'

type Query = Target['query']

const resources = /^\/apis?\//
/** What runs in a pod, or behind a service, answers as it likes. */
const proxied = /\/proxy(?:\/|$)/

const watchPath = /^\/(?:api\/[^/]+|apis\/[^/]+\/[^/]+)\/watch\//
/** Events in these forms cannot be told apart: bookmarks that the client did not ask for could not be taken out. */
const unread = /cbor|yaml/i

/** Whether an API server takes it for a watch: also by the old path, or with a body or an Upgrade header. */
export function isAnyWatch(method: string, { path, query }: Pick<Target, 'path' | 'query'>): boolean {
  return method === 'GET' && (watchPath.test(path) || (resources.test(path) && isTrue(firstOf(query, 'watch'))))
}

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

/** @returns undefined: it is none */
export function watchQuestion(
  request: { readonly method: string; readonly safety: Safety },
  { path, query }: Pick<Target, 'path' | 'query'>,
  { upgrade, accept }: Pick<RequestHead, 'upgrade' | 'accept'>,
): WatchQuestion | undefined {
  if (request.method !== 'GET' || request.safety !== 'safe' || upgrade.length > 0) return undefined
  if (accept.some((types) => unread.test(types))) return undefined
  if (!resources.test(path) || proxied.test(path) || !isTrue(firstOf(query, 'watch'))) return undefined
  const resourceVersion = firstOf(query, 'resourceVersion')
  const timeoutSeconds = Number(firstOf(query, 'timeoutSeconds') ?? 0)
  const start: WatchStart = {
    resourceVersion: resourceVersion === '' || resourceVersion === '0' ? undefined : resourceVersion,
    sendsInitialEvents: isTrue(firstOf(query, 'sendInitialEvents')),
    wantsBookmarks: isTrue(firstOf(query, 'allowWatchBookmarks')),
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

/** The first counts, as in an API server. */
function firstOf(query: Query, name: string): string | undefined {
  return query.find(([other]) => other === name)?.[1][0]
}

/** As an API server reads them: what is there is true, but for these. */
function isTrue(value: string | undefined): boolean {
  return value !== undefined && value !== '0' && value.toLowerCase() !== 'false'
}

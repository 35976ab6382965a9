import type { Target } from './target.ts'

type Asked = Pick<Target, 'path' | 'query'>

const resources = /^\/apis?\//
const watchPath = /^\/(?:api\/[^/]+|apis\/[^/]+\/[^/]+)\/watch\//
const logPath = /\/log$/
/** What runs in the cluster answers there, as it likes. */
const proxied = /\/(?:nodes|pods|services)\/[^/]+\/proxy(?:\/|$)/

/**
 * What an API server answers without an end: a watch, also by the old path, or with a body or an Upgrade header; or a log
 * that is followed.
 */
export function askedStream(method: string, { path, query }: Asked): 'watch' | 'log' | undefined {
  if (method !== 'GET' || !resources.test(path) || proxied.test(path)) return undefined
  if (watchPath.test(path) || isTrue(query, 'watch')) return 'watch'
  return logPath.test(path) && isTrue(query, 'follow') ? 'log' : undefined
}

/** The first counts, as in an API server. */
export function firstOf(query: Target['query'], name: string): string | undefined {
  return query.find(([other]) => other === name)?.[1][0]
}

/** As an API server reads it: what is there is true, but for these. */
export function isTrue(query: Target['query'], name: string): boolean {
  const value = firstOf(query, name)
  return value !== undefined && value !== '0' && value.toLowerCase() !== 'false'
}

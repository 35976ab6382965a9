import type { Target } from './target.ts'

type Asked = Pick<Target, 'path' | 'query'>

const resources = /^\/apis?\//
const watchPath = /^\/(?:api\/[^/]+|apis\/[^/]+\/[^/]+)\/watch\//
const logPath = /\/log$/
/** Paths that the API server forwards into the cluster: the answer is a workload's own. */
const proxied = /\/(?:nodes|pods|services)\/[^/]+\/proxy(?:\/|$)/

/**
 * Recognizes requests whose answer has no end: a log that is followed, or a watch. A watch counts also by the old path,
 * with a body or with an Upgrade header.
 */
export function askedStream(method: string, { path, query }: Asked): 'watch' | 'log' | undefined {
  if (method !== 'GET' || !resources.test(path) || proxied.test(path)) return undefined
  if (watchPath.test(path) || isTrue(query, 'watch')) return 'watch'
  return logPath.test(path) && isTrue(query, 'follow') ? 'log' : undefined
}

/** Returns the first value, which counts in an API server too. */
export function firstOf(query: Target['query'], name: string): string | undefined {
  return query.find(([other]) => other === name)?.[1][0]
}

/** Reads a boolean as an API server does: any value is true, also an empty one, except `0` and `false`. */
export function isTrue(query: Target['query'], name: string): boolean {
  const value = firstOf(query, name)
  return value !== undefined && value !== '0' && value.toLowerCase() !== 'false'
}

import type { Safety } from './call.ts'

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Subresources that act on a pod, or pass the request on to a workload, whatever the method. */
export const actingSubresources: ReadonlySet<string> = new Set(['exec', 'attach', 'portforward', 'proxy'])
const acting = new RegExp(`/(?:${[...actingSubresources].join('|')})(?:/|$)`)

/**
 * Finds out if a repeat of the request can do harm (doc/internals/routing.md "What is tried again"). In doubt a request is
 * unsafe: a resource with the name `proxy` is merely never repeated.
 *
 * @param request - `path` without its query, letters not percent-encoded; `upgrade`: it has an Upgrade header, also if
 * the connection is not upgraded
 */
export function safetyOf(request: { method: string; path: string; upgrade: boolean; body: boolean }): Safety {
  const safe = safeMethods.has(request.method) && !request.upgrade && !request.body && !acting.test(request.path)
  return safe ? 'safe' : 'unsafe'
}

import type { Safety } from './call.ts'

const repeatable = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Sub-resources that act on a pod or hand the request on to what runs there, whatever the method. */
const acting = /\/(?:exec|attach|portforward|proxy)(?:\/|$)/

/**
 * Whether a repeat of the request can do harm (doc/routing.md "What is tried again"). In doubt it can: a resource that
 * happens to be called `proxy` only loses its right to be repeated.
 *
 * @param request - `path` decoded; `upgrade`: it has an Upgrade header, whatever becomes of it
 */
export function safetyOf(request: { method: string; path: string; upgrade: boolean; body: boolean }): Safety {
  const safe = repeatable.has(request.method) && !request.upgrade && !request.body && !acting.test(request.path)
  return safe ? 'safe' : 'unsafe'
}

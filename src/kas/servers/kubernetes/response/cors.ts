/**
 * Decides which web pages may call (doc/reference/tunnel-protocol.md 6.1, doc/reference/gitlab-contract.md 3.4 and 9.4
 * no. 34).
 */

const allMethods = 'GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH'
const preflightMaxAgeSeconds = '86400'

/**
 * Creates the check that an `origin` is GitLab's: same scheme, host and port. Packages write `external_url` without the
 * port, so any port is accepted if it names none. Its path does not matter. Without `externalUrl` no page may call.
 */
export function createOriginCheck(externalUrl: string | undefined): (origin: string) => boolean {
  if (externalUrl === undefined) return () => false
  const allowed = new URL(externalUrl)
  const namesPort = /^\w+:\/\/[^/]*:\d+(?:\/|$)/.test(externalUrl)
  return (origin) => {
    if (origin === externalUrl) return true
    if (!/^https?:\/\/[^/?#@\\\s]+$/i.test(origin) || !URL.canParse(origin)) return false
    const { protocol, hostname, port } = new URL(origin)
    return protocol === allowed.protocol && hostname === allowed.hostname && (!namesPort || port === allowed.port)
  }
}

/** Returns name, value, name, value, for `writeHead`. */
export function originHeaders(origin: string): string[] {
  return ['Access-Control-Allow-Origin', origin, 'Access-Control-Allow-Credentials', 'true', 'Vary', 'Origin']
}

export function preflightHeaders(requested: readonly string[]): string[] {
  const headers = ['Access-Control-Allow-Methods', allMethods, 'Access-Control-Max-Age', preflightMaxAgeSeconds]
  for (const value of requested) headers.push('Access-Control-Allow-Headers', value)
  return headers
}

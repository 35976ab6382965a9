import { isIP } from 'node:net'
import { KasError } from '../../../lib/errors.ts'
import { formatHostPort, type HostPort, parseHostPort } from '../../../lib/host-port.ts'

/** Address of a Gitaly or a Praefect (doc/reference/tunnel-protocol.md 1.20). */
export type GitalyAddress =
  | { readonly kind: 'unix'; readonly path: string }
  | ({ readonly kind: 'tcp' | 'tls' } & HostPort)
  /** `server`: the DNS server that resolves the name; absent: the system */
  | ({ readonly kind: 'dns'; readonly server?: string } & HostPort)

/** as in gRPC's clients, for `dns:` alone */
const defaultDnsTargetPort = 443
const defaultDnsServerPort = 53

const forms = 'unix:/path, tcp://host:port, tls://host:port or dns:[//server/]host[:port]'

/**
 * Parses an address as GitLab writes it: `unix:/path`, `unix:///path`, `tcp://host:port`, `tls://host:port`,
 * `dns:host:port`, `dns:///host:port`, `dns://server:port/host:port`.
 *
 * @throws KasError REPOSITORY_FAILED if it has no such form; the text contains nothing of it
 */
export function parseGitalyAddress(text: string): GitalyAddress {
  const address = ofUnix(text) ?? ofHost(text) ?? ofDns(text)
  if (!address) throw new KasError({ code: 'REPOSITORY_FAILED', detail: `the address of Gitaly is not of ${forms}` })
  return address
}

function ofUnix(text: string): GitalyAddress | undefined {
  const path = /^unix:(?:\/\/(?=\/))?(?<path>[^\0]+)$/.exec(text)?.groups?.path
  return path === undefined ? undefined : { kind: 'unix', path }
}

function ofHost(text: string): GitalyAddress | undefined {
  const { kind, target = '' } = /^(?<kind>tcp|tls):\/\/(?<target>[^/?#@]+)\/?$/.exec(text)?.groups ?? {}
  const place = parseHostPort(target)
  return place && (kind === 'tcp' || kind === 'tls') ? { kind, ...place } : undefined
}

function ofDns(text: string): GitalyAddress | undefined {
  const groups = /^dns:(?:\/\/(?<server>[^/?#@]*)\/)?\/?(?<target>[^/?#@]+)$/.exec(text)?.groups
  const place = groups && withPort(groups.target ?? '', defaultDnsTargetPort)
  if (!place) return undefined
  if (!groups.server) return { kind: 'dns', ...place }
  const server = withPort(groups.server, defaultDnsServerPort)
  return server && isIP(server.host) ? { kind: 'dns', ...place, server: formatHostPort(server) } : undefined
}

function withPort(text: string, port: number): HostPort | undefined {
  return parseHostPort(text) ?? parseHostPort(`${isIP(text) === 6 ? `[${text}]` : text}:${port}`)
}

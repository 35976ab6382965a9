import type { ConfigWarning } from '../../lib/config.ts'
import type { KasConfig } from './kas-schema.ts'

/** Keys that are set, and have no effect because of what others say. */
export function withoutEffect(config: KasConfig): ConfigWarning[] {
  const keys = [
    ...besideDirectoryFile(config),
    ...besideAllHeaders(config),
    ...besideNoSecret(config),
    ...besideSockets(config),
  ]
  return keys.map(([key, hint]) => ({ kind: 'unused', key, hint }))
}

type KeyAndReason = readonly [key: string, reason: string]

function besideDirectoryFile({ directory, gitlab }: KasConfig): KeyAndReason[] {
  if (directory.file === undefined) return []
  const keys = ['address', 'authentication_secret_file', 'ca_certificate_file'] as const
  return keys
    .filter((key) => gitlab[key] !== undefined)
    .map((key) => [`gitlab.${key}`, 'directory.file says who is who'])
}

function besideAllHeaders({ agent: { kubernetes_api: api } }: KasConfig): KeyAndReason[] {
  if (!api || api.response_header_allowlist || api.extra_allowed_response_headers.length === 0) return []
  const key = 'agent.kubernetes_api.extra_allowed_response_headers'
  return [[key, 'response_header_allowlist is off: headers pass without being listed']]
}

function besideNoSecret({ private_api, cluster: { discovery } }: KasConfig): KeyAndReason[] {
  if (private_api.listen.authentication_secret_file !== undefined || !isDiscovering(discovery)) return []
  return [['cluster.discovery', 'without private_api.listen.authentication_secret_file a replica is alone']]
}

function besideSockets({ agent: { listen, kubernetes_api: api } }: KasConfig): KeyAndReason[] {
  const listens = { 'agent.listen': listen, 'agent.kubernetes_api.listen': api?.listen }
  return Object.entries(listens).flatMap(([key, block]): KeyAndReason[] =>
    block?.network === 'unix' && block.trusted_proxies.length > 0
      ? [[`${key}.trusted_proxies`, 'who connects to a Unix socket has no address']]
      : [],
  )
}

/** Discovery searches for other replicas. */
export function isDiscovering({ kubernetes, dns, static: members }: KasConfig['cluster']['discovery']): boolean {
  return kubernetes !== undefined || dns !== undefined || members.length > 0
}

import type { ConfigWarning } from '../../lib/config.ts'
import type { KasConfig } from './kas-schema.ts'

const noRedis = 'there is no Redis: replicas send one another what it would keep'
const noWorkspaces = 'workspaces are not served'
const ownCertificates = 'replicas make their own certificates at each start'

/**
 * Keys of upstream's configuration that packages write and that have no effect, each with the reason.
 *
 * @see doc/reference/tunnel-protocol.md 7.1, doc/reference/gitlab-contract.md 6.2
 */
export const unusedKeys: Readonly<Record<string, string>> = {
  redis: noRedis,
  'agent.redis_conn_info_ttl': noRedis,
  'agent.redis_conn_info_refresh': noRedis,
  'agent.redis_conn_info_gc': noRedis,
  'agent.remote_development': noWorkspaces,
  'agent.receptive_agent': 'receptive agents are not dialled',
  workspaces: noWorkspaces,
  autoflow: 'AutoFlow is not served',
  config: 'no command is run for more configuration: write it into this file, or set KAS_CLUSTER_*',
  'private_api.listen.certificate_file': ownCertificates,
  'private_api.listen.key_file': ownCertificates,
  'private_api.listen.ca_certificate_file': ownCertificates,
  'private_api.listen.max_connection_age': 'connections between replicas stay for as long as both are there',
  'observability.logging.grpc_level': 'the gRPC library has no log here, for it would quote tokens',
  'observability.sentry': 'errors are reported in the log, not to Sentry',
  'observability.google_profiler': 'there is no Google profiler for this platform',
}

/** Finds keys that have no effect because of other keys. */
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

/** True if discovery searches for other replicas. */
export function isDiscovering({ kubernetes, dns, static: members }: KasConfig['cluster']['discovery']): boolean {
  return kubernetes !== undefined || dns !== undefined || members.length > 0
}

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

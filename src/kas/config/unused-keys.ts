const noRedis = 'there is no Redis: replicas tell one another what it held'
const noWorkspaces = 'workspaces are not served'

/**
 * Keys of upstream's configuration that packages write and that have no effect, each with the reason.
 *
 * @see wire-protocol 7.1, gitlab-contract 6.2
 */
export const unusedKeys: Readonly<Record<string, string>> = {
  redis: noRedis,
  'agent.redis_conn_info_ttl': noRedis,
  'agent.redis_conn_info_refresh': noRedis,
  'agent.redis_conn_info_gc': noRedis,
  'agent.gitops': 'GitOps through kas was removed from GitLab 18, use Flux',
  'agent.remote_development': noWorkspaces,
  'agent.receptive_agent': 'receptive agents are not dialled',
  workspaces: noWorkspaces,
  autoflow: 'AutoFlow is not served',
  config: 'no command is run for more configuration, write it into this file',
  'private_api.listen.certificate_file': 'replicas make their own certificates at each start',
  'private_api.listen.key_file': 'replicas make their own certificates at each start',
  'private_api.listen.ca_certificate_file': 'replicas make their own certificates at each start',
  'observability.sentry': 'errors are told in the log, not to Sentry',
  'observability.google_profiler': 'there is no Google profiler for this platform',
}

import { wireSection } from './row.ts'

/** What operators and their tools look at. */

export const metricRows = wireSection('Metrics', [
  [
    'metric.k8s_api_proxy_routing_duration_seconds',
    'W 8.1',
    'defined',
    '`k8s_api_proxy_routing_duration_seconds`, `status` success or aborted, 8 buckets',
  ],
  ['metric.k8s_api_proxy_routing_timeout_total', 'W 8.1', 'defined', '`k8s_api_proxy_routing_timeout_total`'],
  ['metric.agent_server_rate_exceeded_total', 'W 8.1', 'defined', '`agent_server_rate_exceeded_total`'],
  ['metric.connected_agents_count', 'W 8.1', 'defined', '`connected_agents_count`, of this replica'],
  ['metric.flux_git_push_notifications_total', 'W 8.1', 'defined', '`flux_git_push_notifications_total`'],
  [
    'metric.flux_dropped_git_push_notifications_total',
    'W 8.1',
    'defined',
    '`flux_dropped_git_push_notifications_total`',
  ],
  ['metric.grpc_server_requests_in_flight', 'W 8.1', 'defined', '`grpc_server_requests_in_flight`'],
  ['metric.grpc_server_started_total', 'W 8.1', 'defined', '`grpc_server_started_total`'],
  ['metric.grpc_server_handled_total', 'W 8.1', 'defined', '`grpc_server_handled_total`'],
  ['metric.grpc_server_msg_received_total', 'W 8.1', 'defined', '`grpc_server_msg_received_total`'],
  ['metric.grpc_server_msg_sent_total', 'W 8.1', 'defined', '`grpc_server_msg_sent_total`'],
  [
    'metric.limiter_limit',
    'W 8.1',
    'defined',
    '`limiter_limit`: gitlab_client, gitaly_client_global, gitaly_client_<address>',
  ],
  ['metric.limiter_block_duration', 'W 8.1', 'unsure', '`limiter_block_duration_milliseconds`, `allowed`'],
  ['metric.gitlab_build_info', 'W 8.1', 'defined', '`gitlab_build_info`'],
  ['metric.process', 'W 8.1', 'defined', '`process_*`'],
])

export const usageRows = wireSection('What GitLab counts', [
  ['usage.k8s_api_proxy_request', 'W 8.2', 'defined', 'counter `k8s_api_proxy_request`'],
  ['usage.k8s_api_proxy_requests_via_ci_access', 'W 8.2', 'defined', 'counter `k8s_api_proxy_requests_via_ci_access`'],
  [
    'usage.k8s_api_proxy_requests_via_user_access',
    'W 8.2',
    'defined',
    'counter `k8s_api_proxy_requests_via_user_access`',
  ],
  [
    'usage.k8s_api_proxy_requests_via_pat_access',
    'W 8.2',
    'defined',
    'counter `k8s_api_proxy_requests_via_pat_access`',
  ],
  ['usage.flux_git_push_notifications_total', 'W 8.2', 'defined', 'counter `flux_git_push_notifications_total`'],
  ['usage.unique.ci', 'W 8.2', 'defined', 'unique `k8s_api_proxy_requests_unique_{users,agents}_via_ci_access`'],
  ['usage.unique.user', 'W 8.2', 'defined', 'unique `k8s_api_proxy_requests_unique_{users,agents}_via_user_access`'],
  ['usage.unique.pat', 'W 8.2', 'defined', 'unique `k8s_api_proxy_requests_unique_{users,agents}_via_pat_access`'],
  ['usage.unique.agent_users_using_ci_tunnel', 'W 8.2', 'defined', 'unique `agent_users_using_ci_tunnel`'],
  ['usage.unique.flux', 'W 8.2', 'defined', 'unique `flux_git_push_notified_unique_projects`'],
  ['event.ci', 'W 8.2', 'defined', 'event `k8s_api_proxy_requests_unique_users_via_ci_access`'],
  ['event.user', 'W 8.2', 'defined', 'event `k8s_api_proxy_requests_unique_users_via_user_access`'],
  ['event.pat', 'W 8.2', 'defined', 'event `k8s_api_proxy_requests_unique_users_via_pat_access`'],
  ['event.register_agent_at_kas', 'W 8.2', 'defined', 'event `register_agent_at_kas`'],
  ['usage.cap', 'G 10.3 no. 22', 'unsure', 'large numbers go in parts, for GitLab counts in a loop'],
  ['usage.period', 'W 7.1', 'defined', 'a period of 0 switches it off'],
])

export const healthRows = wireSection('Health', [
  ['health.liveness', 'W 8.3', 'defined', '`/liveness`: 200, empty'],
  [
    'health.readiness',
    'W 8.3',
    'defined',
    '`/readiness`: 200, or 500 with the first reason, `agentServer: not ready yet`',
  ],
  ['health.paths', 'W 8.3', 'defined', 'the paths are the configured ones'],
  ['health.server', 'W 8.3', 'defined', '`Server` is the name of the program'],
  ['health.read', 'W 8.3', 'defined', 'a request that does not come in time is cut'],
  ['health.idle', 'W 8.3', 'defined', 'so is an idle connection'],
  ['health.redis', 'W 4.1 no. 7', 'defined', 'readiness depends on no third service'],
])

export const logRows = wireSection('Logs', [
  [
    'log.line',
    'W 8.4',
    'defined',
    'one JSON object a line: `level` in lower case, `time` with ms and zone, `msg`, `error`',
  ],
  ['log.mod_name', 'W 8.4', 'defined', '`mod_name`'],
  ['log.agent_id', 'W 8.4', 'defined', '`agent_id`'],
  ['log.trace_id', 'W 8.4', 'defined', '`trace_id`, the one that the caller was told'],
  ['log.grpc_method', 'W 8.4', 'defined', '`grpc_method`'],
  ['log.net_address', 'W 8.4', 'defined', '`net_network`, `net_address` of an endpoint'],
  ['log.url_path', 'W 8.4', 'defined', '`url_path` of a call to GitLab that failed'],
  ['log.endpoint', 'W 8.4', 'defined', '`… endpoint is up`: Agentk API, Kubernetes API, Observability'],
  ['log.endpoint.rails', 'W 8.4', 'defined', '`API endpoint is up`'],
  ['log.endpoint.private', 'W 8.4', 'defined', '`Private API endpoint is up`'],
  ['log.tokens', 'W 8.4', 'defined', 'tokens are never logged'],
])

/** What the reference has and the tables have not: said here, so that nobody takes a gap for a promise. */
export interface MissingRow {
  readonly id: string
  readonly source: string
  readonly what: string
}

/** Not served by kas, and no answer that a test could hold. */
export const notThere: readonly MissingRow[] = [
  { id: 'agentk.GitlabAccess', source: 'W 1.8', what: 'our agentk makes no requests to GitLab' },
  {
    id: 'tracker.warnings',
    source: 'W 1.7, G 10.2 no. 2',
    what: '`warnings` of connected agents: numbers unknown, left out',
  },
  { id: 'graph', source: 'W 6.8', what: '`<prefix>graph`: 404' },
  { id: 'receptive-agents', source: 'W 1.16, 5.3', what: 'GET `/internal/kubernetes/receptive_agents`: never asked' },
  {
    id: 'rest.project_info',
    source: 'W 5.3',
    what: 'GET `/internal/kubernetes/project_info`: never asked, it served GitOps',
  },
  { id: 'rest.autoflow', source: 'W 5.3', what: 'GET `/internal/autoflow/repository_info`: never asked' },
  {
    id: 'rest.agentw',
    source: 'G 2.2 no. 16 to 18',
    what: '`/internal/agents/agentw/…`: never asked, workspaces are not served',
  },
  {
    id: 'rest.job-router',
    source: 'G 2.2 no. 19 to 23',
    what: '`/internal/ci/…`: never asked, the job router is not served',
  },
  {
    id: 'metric.otel',
    source: 'W 8.1',
    what: 'histograms of OpenTelemetry, of HTTP and RPC clients and servers',
  },
  {
    id: 'metric.grpc_client',
    source: 'W 8.1',
    what: '`grpc_client_*`: `kas_gitaly_call_duration_seconds` tells of calls to Gitaly',
  },
  { id: 'metric.limiter.agent_connection', source: 'W 8.1', what: 'the limiter of agents’ calls in `limiter_*`' },
  { id: 'metric.go', source: 'W 8.1', what: '`go_*`, `promhttp_*`: `nodejs_*` in their place' },
  {
    id: 'metric.tunnel_routing',
    source: 'W 8.1',
    what: '`tunnel_routing_timeout_total` and its like of newer dashboards',
  },
  { id: 'usage.gitops_sync', source: 'W 8.2', what: 'counter `gitops_sync`: there is no GitOps' },
  { id: 'ws.shutdown', source: 'W 2.2', what: 'close 1001 `Shutting down` of a WebSocket that carries no HTTP/2 yet' },
  { id: 'error.outbound', source: 'W 6.6', what: '500 `Proxy failed to make outbound request`: there is no such step' },
  { id: 'limit.head', source: 'W 6.7', what: 'heads of up to 1 MiB on 8154: 64 KiB here, 431 above' },
  { id: 'rest.feature-flag', source: 'G 2.1', what: '`Gitlab-Feature-Flag` of GitLab’s answers: not read' },
  { id: 'health.pprof', source: 'W 8.3', what: '`/debug/pprof/*`' },
]

/** kas does it, and no test says so yet. */
export const notHeld: readonly MissingRow[] = []

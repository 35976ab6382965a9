/** What GitLab wants counted (doc/reference/tunnel-protocol.md 8.2, doc/reference/gitlab-contract.md 2.5). */

export type CounterName =
  | 'k8s_api_proxy_request'
  | 'k8s_api_proxy_requests_via_ci_access'
  | 'k8s_api_proxy_requests_via_user_access'
  | 'k8s_api_proxy_requests_via_pat_access'
  | 'flux_git_push_notifications_total'

export type UniqueCounterName =
  | 'k8s_api_proxy_requests_unique_users_via_ci_access'
  | 'k8s_api_proxy_requests_unique_agents_via_ci_access'
  | 'k8s_api_proxy_requests_unique_users_via_user_access'
  | 'k8s_api_proxy_requests_unique_agents_via_user_access'
  | 'k8s_api_proxy_requests_unique_users_via_pat_access'
  | 'k8s_api_proxy_requests_unique_agents_via_pat_access'
  | 'agent_users_using_ci_tunnel'
  | 'flux_git_push_notified_unique_projects'

export interface AgentEvents {
  k8s_api_proxy_requests_unique_users_via_ci_access: { user_id: bigint; project_id: bigint }
  k8s_api_proxy_requests_unique_users_via_user_access: { user_id: bigint; project_id: bigint }
  k8s_api_proxy_requests_unique_users_via_pat_access: { user_id: bigint; project_id: bigint }
  register_agent_at_kas: {
    project_id: bigint
    agent_id: bigint
    agent_version: string
    architecture: string
    kubernetes_version: string
    extra_telemetry_data: Readonly<Record<string, string>>
  }
}
export type EventName = keyof AgentEvents

/** Takes note; never fails, never waits. */
export interface Usage {
  count(name: CounterName): void
  countUnique(name: UniqueCounterName, id: bigint): void
  /** the same event counts once in a reporting period */
  event<Name extends EventName>(name: Name, event: AgentEvents[Name]): void
}

/** For who reports to nobody. */
export const noUsage: Usage = { count: () => undefined, countUnique: () => undefined, event: () => undefined }

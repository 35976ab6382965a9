import type { AgentId } from '../../../../call/call.ts'
import type { Usage } from '../../../directory/usage.ts'

/** A request that was let through, and by what: a CI job, a browser's session or a personal access token. */
export interface Access {
  readonly via: 'ci' | 'user' | 'pat'
  readonly agentId: AgentId
  readonly userId: bigint
  /** of the job, else the agent's own */
  readonly projectId: bigint
}

/** Counts it as GitLab wants it: doc/reference/tunnel-protocol.md 8.2, doc/reference/gitlab-contract.md 2.5. */
export function countAccess(usage: Usage, { via, agentId, userId, projectId }: Access): void {
  usage.count('k8s_api_proxy_request')
  usage.count(`k8s_api_proxy_requests_via_${via}_access`)
  usage.countUnique(`k8s_api_proxy_requests_unique_users_via_${via}_access`, userId)
  usage.countUnique(`k8s_api_proxy_requests_unique_agents_via_${via}_access`, agentId)
  if (via === 'ci') usage.countUnique('agent_users_using_ci_tunnel', userId)
  usage.event(`k8s_api_proxy_requests_unique_users_via_${via}_access`, { user_id: userId, project_id: projectId })
}

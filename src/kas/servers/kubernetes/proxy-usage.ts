import type { Usage } from '../../directory/usage.ts'
import type { Access } from './authorization/authorize.ts'

/** Counts admitted requests for GitLab (doc/reference/tunnel-protocol.md 8.2, doc/reference/gitlab-contract.md 2.5). */
export function proxyUsage(usage: Usage): (access: Access) => void {
  const request = usage.counter('k8s_api_proxy_request')
  const ciUser = usage.unique('agent_users_using_ci_tunnel')
  const ways = { ci: countersOf(usage, 'ci'), user: countersOf(usage, 'user'), pat: countersOf(usage, 'pat') }
  return ({ via, agentId, userId, projectId }) => {
    request()
    ways[via].request()
    ways[via].user(userId)
    ways[via].agent(agentId)
    if (via === 'ci') ciUser(userId)
    ways[via].event({ user_id: userId, project_id: projectId })
  }
}

function countersOf(usage: Usage, via: Access['via']) {
  const users = `k8s_api_proxy_requests_unique_users_via_${via}_access`
  return {
    request: usage.counter(`k8s_api_proxy_requests_via_${via}_access`),
    user: usage.unique(users),
    agent: usage.unique(`k8s_api_proxy_requests_unique_agents_via_${via}_access`),
    event: usage.event<{ user_id: bigint; project_id: bigint }>(users),
  }
}

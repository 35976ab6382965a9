import type { AgentMeta } from '../../../proto/gen/entity_pb.ts'
import type { Agent } from '../../directory/directory.ts'
import type { AgentEvents } from '../../directory/usage.ts'

/** What GitLab hears of a pod that registers (wire-protocol 8.2). Telemetry of the chart has no known field (1.19). */
export function registerEvent(agent: Agent, meta: AgentMeta): AgentEvents['register_agent_at_kas'] {
  const { gitVersion = '', platform = '' } = meta.kubernetesVersion ?? {}
  return {
    project_id: agent.project.id,
    agent_id: agent.id,
    agent_version: meta.version,
    architecture: platform.split('/')[1] ?? '',
    kubernetes_version: gitVersion,
    extra_telemetry_data: {},
  }
}

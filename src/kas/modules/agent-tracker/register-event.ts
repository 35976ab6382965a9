import type { AgentMeta } from '../../../proto/gen/entity_pb.ts'
import type { Agent } from '../../agent.ts'
import type { AgentEvents } from '../../directory/usage.ts'

/** Of a text that the pod chose; versions have a third of it. */
const maxTextLength = 64

/**
 * What GitLab hears of a pod that registers (doc/reference/tunnel-protocol.md 8.2). Telemetry of the chart has no known
 * field (doc/reference/tunnel-protocol.md 1.19).
 */
export function registerEvent(agent: Agent, meta: AgentMeta): AgentEvents['register_agent_at_kas'] {
  const { gitVersion = '', platform = '' } = meta.kubernetesVersion ?? {}
  return {
    project_id: agent.project.id,
    agent_id: agent.id,
    agent_version: cut(meta.version),
    architecture: cut(/^[^/]*\/([^/]*)/.exec(platform)?.[1] ?? ''),
    kubernetes_version: cut(gitVersion),
    extra_telemetry_data: {},
  }
}

function cut(text: string): string {
  return text.length > maxTextLength ? `${text.slice(0, maxTextLength).toWellFormed()}…` : text
}

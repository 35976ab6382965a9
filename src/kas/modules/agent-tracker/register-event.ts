import type { AgentMeta } from '../../../proto/gen/entity_pb.ts'
import type { Agent } from '../../agent.ts'

export interface RegisterEvent {
  readonly project_id: bigint
  readonly agent_id: bigint
  readonly agent_version: string
  readonly architecture: string
  readonly kubernetes_version: string
  readonly extra_telemetry_data: Readonly<Record<string, string>>
}

/** of a text that the pod chose; versions have a third of it */
const maxTextLength = 64

/**
 * What GitLab gets of a pod that registers (doc/reference/tunnel-protocol.md 8.2). Telemetry of the chart has no known
 * field (doc/reference/tunnel-protocol.md 1.19).
 */
export function registerEvent(agent: Agent, meta: AgentMeta): RegisterEvent {
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

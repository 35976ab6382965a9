import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { AgentId } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Registration } from '../../../membership/membership.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import {
  AgentTracker,
  CountAgentsByAgentVersionsResponseSchema,
  type GetConnectedAgentsByAgentIDsRequest,
  type GetConnectedAgentsByProjectIDsRequest,
  type GetConnectedAgentsRequest,
  type GetConnectedAgentsResponse,
  GetConnectedAgentsResponseSchema,
} from '../../../proto/gen/agent_tracker_rpc_pb.ts'
import { AgentMetaSchema } from '../../../proto/gen/entity_pb.ts'
import { type UnaryMethods, unaryService } from '../../../proto/unary.ts'

/** Registered pods, at any replica or at this one. */
export interface RegistrationSource {
  ofAgents(ids: ReadonlySet<AgentId>): readonly Registration[]
  ofProjects(ids: ReadonlySet<bigint>): readonly Registration[]
  all(): readonly Registration[]
}

/**
 * Service AgentTracker, under every name that GitLab has used (doc/reference/tunnel-protocol.md 1.7). Answers are
 * sorted, so that those of two replicas can be compared.
 */
export function agentTrackerService(source: RegistrationSource): UnaryMethods {
  const byAgents = async ({ agentIds }: GetConnectedAgentsByAgentIDsRequest) =>
    answer(source.ofAgents(new Set(agentIds as AgentId[])))
  const byProjects = async ({ projectIds }: GetConnectedAgentsByProjectIDsRequest) =>
    answer(source.ofProjects(new Set(projectIds)))
  return unaryService(AgentTracker, {
    getConnectedAgents: async ({ request }: GetConnectedAgentsRequest) => {
      if (request.case === 'agentId') return answer(source.ofAgents(new Set([request.value as AgentId])))
      if (request.case === 'projectId') return answer(source.ofProjects(new Set([request.value])))
      throw new KasError({ code: 'INVALID_MESSAGE', detail: 'project_id or agent_id is required' })
    },
    getConnectedAgentsByProjectIds: byProjects,
    getConnectedAgentsByProjectIDs: byProjects,
    getConnectedAgentksByProjectIDs: byProjects,
    getConnectedAgentsByAgentIds: byAgents,
    getConnectedAgentsByAgentIDs: byAgents,
    getConnectedAgentksByAgentIDs: byAgents,
    countAgentsByAgentVersions: async () =>
      create(CountAgentsByAgentVersionsResponseSchema, { agentVersions: countVersions(source.all()) }),
  })
}

function answer(registrations: readonly Registration[]): GetConnectedAgentsResponse {
  return create(GetConnectedAgentsResponseSchema, {
    agents: registrations.toSorted(byIds).map(({ meta, registeredAt, podId, agentId, projectId }) => ({
      agentMeta: meta,
      connectedAt: timestampFromMs(registeredAt),
      connectionId: podId,
      agentId,
      projectId,
    })),
  })
}

function byIds(one: Registration, other: Registration): number {
  return compare(one.agentId, other.agentId) || compare(one.podId, other.podId)
}

function compare(one: bigint, other: bigint): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}

/** Counts pods by version. A pod with no version, or an unreadable one, counts under the empty text. */
function countVersions(registrations: readonly Registration[]): Record<string, bigint> {
  const counts: Record<string, bigint> = Object.create(null) // an agent may call its version `constructor`
  for (const { meta } of registrations) {
    const version = versionOf(meta)
    counts[version] = (counts[version] ?? 0n) + 1n
  }
  return counts
}

function versionOf(meta: Uint8Array): string {
  try {
    return decodeMessage(AgentMetaSchema, meta).version
  } catch {
    return ''
  }
}

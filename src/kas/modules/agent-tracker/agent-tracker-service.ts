import { create, fromBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { AgentId } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
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
import type { ConnectedAgent } from './own-registrations.ts'

/** Knows the pods that are connected, to any replica. */
export interface ConnectedAgentsSource {
  ofAgents(ids: ReadonlySet<AgentId>): readonly ConnectedAgent[]
  ofProjects(ids: ReadonlySet<bigint>): readonly ConnectedAgent[]
  all(): readonly ConnectedAgent[]
}

/**
 * Service AgentTracker under every name that GitLab has called it by (doc/reference/tunnel-protocol.md 1.7). Answers
 * are in one order, so that those of two replicas can be compared.
 */
export function agentTrackerService({
  connectedAgents: source,
}: {
  connectedAgents: ConnectedAgentsSource
}): UnaryMethods {
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

function answer(agents: readonly ConnectedAgent[]): GetConnectedAgentsResponse {
  return create(GetConnectedAgentsResponseSchema, {
    agents: agents.toSorted(byIds).map(({ meta, connectedAt, connectionId, agentId, projectId }) => ({
      agentMeta: meta,
      connectedAt: timestampFromMs(connectedAt),
      connectionId,
      agentId,
      projectId,
    })),
  })
}

function byIds(one: ConnectedAgent, other: ConnectedAgent): number {
  return compare(one.agentId, other.agentId) || compare(one.connectionId, other.connectionId)
}

function compare(one: bigint, other: bigint): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}

/** Pods by version; a pod that told none, or nonsense, counts under the empty one. */
function countVersions(agents: readonly ConnectedAgent[]): Record<string, bigint> {
  const counts: Record<string, bigint> = Object.create(null) // an agent may call its version `constructor`
  for (const { meta } of agents) {
    const version = versionOf(meta)
    counts[version] = (counts[version] ?? 0n) + 1n
  }
  return counts
}

function versionOf(meta: Uint8Array): string {
  try {
    return fromBinary(AgentMetaSchema, meta).version
  } catch {
    return ''
  }
}

import { create } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import { positiveInt63 } from '../../../lib/positive-int63.ts'
import type { InstanceId } from '../../../membership/membership.ts'
import { ForgetPodResponseSchema, Registrations } from '../../../proto/gen/replica_registrations_pb.ts'
import { unaryService } from '../../../proto/unary.ts'
import type { Agent } from '../../agent.ts'
import type { KasHost, KasModule } from '../../module.ts'
import { agentTrackerMethods } from './agent-tracker.ts'
import { agentTrackerService } from './agent-tracker-service.ts'
import { ClusterAgents } from './all-registrations.ts'
import { ConnectedAgents } from './own-registrations.ts'

/** Registrations that an agent before 16.5 makes by its configuration stream are renewed this often. ms */
const registrationRenewalMs = 300_000

export interface AgentTracker extends KasModule {
  /** The agent's pod is registered until the returned function is called. */
  keepRegistered(agent: Agent, meta: Uint8Array): () => void
}

/** Which pods of agents are connected, to any replica: what GitLab shows. */
export function createAgentTracker(host: KasHost): AgentTracker {
  const { usage, clock } = host
  const own = new ConnectedAgents({ clock })
  const all = allRegistrations(host, own)
  return {
    name: 'agent tracker',
    agentMethods: agentTrackerMethods({ connectedAgents: own, usage }),
    railsMethods: agentTrackerService({ connectedAgents: all ?? own }),
    replicaMethods: unaryService(Registrations, {
      forgetPod: async ({ agentId, podId }) => {
        own.forget(agentId as AgentId, podId)
        return create(ForgetPodResponseSchema)
      },
    }),
    ...(all ? { services: [all] } : {}),
    keepRegistered: (agent, meta) => keepRegistered(own, agent, meta),
  }
}

function allRegistrations(
  { registrations, peers, clock, log }: KasHost,
  own: ConnectedAgents,
): ClusterAgents | undefined {
  if (!registrations) return undefined
  const forgetPod = async (instance: InstanceId, agentId: AgentId, podId: bigint) => {
    try {
      await peers.call(instance, Registrations.method.forgetPod, { agentId, podId })
    } catch (error) {
      const fields = { error, instance, agent_id: String(agentId) }
      log.debug(fields, 'A replica could not be told that a pod is not there any more')
    }
  }
  const others = { isFirst: (key: string) => peers.isFirst(key), forgetPod }
  return new ClusterAgents({ own, registrations, others, clock, log })
}

function keepRegistered(connectedAgents: ConnectedAgents, agent: Agent, meta: Uint8Array): () => void {
  const connectionId = positiveInt63()
  const register = () => connectedAgents.register(agent, connectionId, meta, { renewed: false })
  register()
  const renewal = setInterval(register, registrationRenewalMs)
  return () => {
    clearInterval(renewal)
    connectedAgents.unregister(agent, connectionId)
  }
}

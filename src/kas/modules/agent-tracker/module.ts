import { create } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import { monotonicClock } from '../../../lib/clock.ts'
import { positiveInt63 } from '../../../lib/positive-int63.ts'
import type { InstanceId, Registration } from '../../../membership/membership.ts'
import { ForgetPodResponseSchema, Registrations } from '../../../proto/gen/replica_registrations_pb.ts'
import { unaryService } from '../../../proto/unary.ts'
import type { Agent } from '../../agent.ts'
import type { KasHost, KasModule } from '../../module.ts'
import { agentTrackerMethods } from './agent-methods.ts'
import { AllRegistrations } from './all-registrations.ts'
import { OwnRegistrations } from './own-registrations.ts'
import { agentTrackerService } from './rails-service.ts'

/** Period of renewals in ms, for agents before 16.5, which register by their configuration stream. */
const registrationRenewalMs = 300_000

export interface AgentTracker extends KasModule {
  /** Registers the agent's pod until the returned function is called. */
  keepRegistered(agent: Agent, meta: Uint8Array): () => void
  /** Returns registered pods of these agents, at any replica. */
  registered(ids: ReadonlySet<AgentId>): readonly Registration[]
}

/** Tracks the pods that are registered with any replica: GitLab shows their agents as connected. */
export function createAgentTracker(host: KasHost): AgentTracker {
  const { usage, clock } = host
  const own = new OwnRegistrations({ clock, monotonic: monotonicClock })
  const all = allRegistrations(host, own)
  return {
    name: 'agent tracker',
    agentMethods: agentTrackerMethods({ own, usage }),
    railsMethods: agentTrackerService(all ?? own),
    replicaMethods: unaryService(Registrations, {
      forgetPod: async ({ agentId, podId }) => {
        own.forget(agentId as AgentId, podId)
        return create(ForgetPodResponseSchema)
      },
    }),
    ...(all ? { services: [all] } : {}),
    keepRegistered: (agent, meta) => keepRegistered(own, agent, meta),
    registered: (ids) => (all ?? own).ofAgents(ids),
  }
}

function allRegistrations(
  { registrations, peers, clock, ...host }: KasHost,
  own: OwnRegistrations,
): AllRegistrations | undefined {
  if (!registrations) return undefined
  const log = host.log.child({ mod_name: 'cluster' })
  const forgetPod = async (instance: InstanceId, agentId: AgentId, podId: bigint) => {
    try {
      await peers.call(instance, Registrations.method.forgetPod, { agentId, podId })
    } catch (error) {
      const fields = { error, instance, agent_id: String(agentId) }
      log.debug(fields, 'A replica could not be notified that a pod is not there any more')
    }
  }
  const isFirst = (key: string) => peers.isFirst(key)
  return new AllRegistrations({ own, registrations, peers: { isFirst, forgetPod }, clock, log })
}

function keepRegistered(own: OwnRegistrations, agent: Agent, meta: Uint8Array): () => void {
  const podId = positiveInt63()
  const register = () => own.register(agent, podId, meta, { renewed: false })
  register()
  const renewal = setInterval(register, registrationRenewalMs)
  return () => {
    clearInterval(renewal)
    own.unregister(agent, podId)
  }
}

import { systemClock } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import type { Service } from '../lib/service.ts'
import type { Cluster } from './cluster.ts'
import type { Identity } from './identity.ts'
import { KnownPushReports } from './known-push-reports.ts'
import type { ConnectedAgentsSource } from './modules/agent-tracker/agent-tracker-service.ts'
import { ClusterAgents } from './modules/agent-tracker/all-registrations.ts'
import type { AgentConfigFiles } from './modules/configuration-project/agent-config-files.ts'
import { ClusterPushEvents } from './modules/notifications/cluster-push-events.ts'
import { ReplicaCalls } from './replica-calls.ts'
import type { Leads } from './replicas/leads.ts'
import type { PushEvents } from './repositories/pushes.ts'
import { CallCountReports } from './servers/agents/call-count-reports.ts'
import type { CallCounts, MinuteCounts } from './servers/agents/call-counts.ts'

/** What GitLab asks and tells. */
export interface Told {
  readonly connectedAgents: ConnectedAgentsSource
  readonly pushEvents: PushEvents
  readonly configFiles?: AgentConfigFiles
}

export interface OverAllReplicasComponents {
  readonly identity: Identity
  readonly cluster: Pick<Cluster, 'membership' | 'replicas'>
  readonly leads: Leads
  readonly counts: CallCounts
  readonly log: Logger
}

/** Connects what replicas do for one another, and gives what GitLab is told over all of them. */
export function overAllReplicas(
  { identity, cluster, leads, counts, log }: OverAllReplicasComponents,
  options: { readonly callsPerTokenPerMinute: number },
): { told: Told; services: readonly Service[] } {
  const { connectedAgents, pushEvents, recentPushes, configFiles, polled } = identity
  const { membership, replicas } = cluster
  const others = new ReplicaCalls({ membership, replicas, log })
  leads.join(membership, (agentId) => others.passedOn(agentId))
  polled?.onFound((projectId) => void others.branchMoved(projectId))
  const agents = new ClusterAgents({ own: connectedAgents, membership, others, clock: systemClock, log })
  const tell = (news: MinuteCounts) => others.callCounts(news)
  const reports = new CallCountReports({ counts, tell, clock: systemClock }, options)
  const pushes = new KnownPushReports({
    pushes: recentPushes,
    replicas,
    tell: (instance, known) => others.recentPushes(instance, known),
    clock: systemClock,
    log,
  })
  const told = {
    connectedAgents: agents,
    pushEvents: new ClusterPushEvents({ local: pushEvents, others, log }),
    ...(configFiles ? { configFiles } : {}),
  }
  return { told, services: [agents, reports, pushes] }
}

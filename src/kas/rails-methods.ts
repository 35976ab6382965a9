import type { Clock } from '../lib/clock.ts'
import type { GrpcType } from '../lib/metrics.ts'
import { kubernetesApiMethod } from '../proto/http/http-over-grpc.ts'
import type { UnaryMethod } from '../proto/unary.ts'
import { agentTrackerService, type ConnectedAgentsSource } from './modules/agent-tracker/agent-tracker-service.ts'
import type { AgentConfigFiles } from './modules/configuration-project/agent-config-files.ts'
import { configurationProjectService } from './modules/configuration-project/configuration-project.ts'
import { notificationsService } from './modules/notifications/notifications.ts'
import { serverInfoService } from './modules/server-info/server-info.ts'
import type { PushEvents } from './repositories/pushes.ts'

export interface RailsMethodsComponents {
  readonly connectedAgents: ConnectedAgentsSource
  readonly pushEvents: PushEvents
  /** absent: nobody reads Gitaly, and there is no such service */
  readonly configFiles?: AgentConfigFiles
  readonly clock: Clock
}

/** What GitLab may call on 8153 beside the services of agents: the modules, each under its methods. */
export function railsMethods(
  components: RailsMethodsComponents,
  { advertisedVersion }: { advertisedVersion: string },
): ReadonlyMap<string, UnaryMethod> {
  return new Map([
    ...agentTrackerService(components),
    ...notificationsService(components),
    ...serverInfoService(advertisedVersion),
    ...(components.configFiles ? configurationProjectService(components.configFiles) : []),
  ])
}

/** For metrics: of agents' methods the one that is known by name is among them. */
export function railsMethodTypes(methods: ReadonlyMap<string, UnaryMethod>): Readonly<Record<string, GrpcType>> {
  const types = [...methods.keys()].map((name) => [name, 'unary'] as const)
  return { [kubernetesApiMethod]: 'bidi_stream', ...Object.fromEntries(types) }
}

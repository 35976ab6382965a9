import type { Logger } from '../lib/log.ts'
import type { GrpcType } from '../lib/metrics.ts'
import { positiveInt63 } from '../lib/positive-int63.ts'
import { connectMethod } from '../proto/reverse-tunnel.ts'
import type { Agent, Directory } from './directory/directory.ts'
import type { Usage } from './directory/usage.ts'
import { agentTrackerHandlers } from './modules/agent-tracker/agent-tracker.ts'
import type { ConnectedAgents } from './modules/agent-tracker/connected-agents.ts'
import {
  type ConfigurationOptions,
  configurationHandler,
  getConfigurationMethod,
} from './modules/configuration/configuration.ts'
import type { ConfigurationPosts } from './modules/configuration/configuration-posts.ts'
import type { AgentConfigurations } from './repositories/agent-configurations.ts'
import { bearerToken } from './servers/agents/authenticator.ts'
import type { AgentMethod } from './servers/agents.ts'

export interface AgentMethodsComponents {
  readonly directory: Pick<Directory, 'agentByToken' | 'watchToken' | 'onChange'>
  readonly configurations: AgentConfigurations
  /** told who registers */
  readonly connectedAgents: ConnectedAgents
  readonly usage: Usage
  /** told whose configuration GitLab wants; absent: it wants none */
  readonly posts?: Pick<ConfigurationPosts, 'follow'>
  readonly log: Logger
}

/** Registrations that an agent before 16.5 makes by its configuration stream are renewed this often. ms */
const registrationRenewalMs = 300_000

/** What agents may call on 8150 beside Connect: the modules, each under its methods. */
export function agentMethods(
  { directory, configurations, connectedAgents, usage, posts, log }: AgentMethodsComponents,
  options: ConfigurationOptions,
): Readonly<Record<string, AgentMethod>> {
  const serve: AgentMethod['serve'] = async (agent, stream, retired) => {
    const handle = configurationHandler<typeof stream>(
      {
        configurations,
        authenticate: ({ metadata, signal }) => directory.agentByToken(bearerToken(metadata), signal),
        retired: () => retired,
        onDirectoryChange: (listener) => directory.onChange?.(listener) ?? (() => undefined),
        connected: (pod, meta) => keepRegistered(connectedAgents, pod, meta),
        log,
      },
      options,
    )
    const release = directory.watchToken?.(bearerToken(stream.metadata))
    const unfollow = posts?.follow(agent)
    try {
      await handle(agent, stream)
    } finally {
      unfollow?.()
      release?.()
    }
  }
  const methods: Record<string, AgentMethod> = { [getConfigurationMethod]: { streaming: true, serve } }
  for (const [name, handler] of agentTrackerHandlers({ connectedAgents, usage }))
    methods[name] = { streaming: false, serve: handler }
  return methods
}

/** For metrics: Connect is among them. */
export function methodTypes(methods: Readonly<Record<string, AgentMethod>>): Readonly<Record<string, GrpcType>> {
  const types = Object.entries(methods).map(
    ([name, { streaming }]) => [name, streaming ? 'server_stream' : 'unary'] as const,
  )
  return { [connectMethod]: 'bidi_stream', ...Object.fromEntries(types) }
}

/** @returns ends the registration */
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

import type { Logger } from '../lib/log.ts'
import type { GrpcType, Registry } from '../lib/metrics.ts'
import { positiveInt63 } from '../lib/positive-int63.ts'
import { gitlabAccessMethod } from '../proto/http/http-over-grpc.ts'
import { connectMethod } from '../proto/reverse-tunnel.ts'
import type { Agent } from './agent.ts'
import type { AgentConfigurations } from './agent-config/agent-configs.ts'
import type { Directory } from './directory/directory.ts'
import type { Usage } from './directory/usage.ts'
import { agentTrackerHandlers } from './modules/agent-tracker/agent-tracker.ts'
import type { ConnectedAgents } from './modules/agent-tracker/own-registrations.ts'
import {
  type ConfigurationOptions,
  configurationHandler,
  getConfigurationMethod,
} from './modules/configuration/configuration.ts'
import type { ConfigurationPosts } from './modules/configuration/configuration-posts.ts'
import { createFluxMetrics } from './modules/flux/flux-metrics.ts'
import type { RecentPushes } from './modules/flux/recent-pushes.ts'
import { reconcileProjectsHandler, reconcileProjectsMethod } from './modules/flux/reconcile-projects.ts'
import { type MakeRequestComponents, makeRequestHandler } from './modules/gitlab-access/make-request.ts'
import type { AgentMethod } from './servers/agents/agent-method.ts'
import { bearerToken } from './servers/agents/authenticator.ts'

export interface AgentMethodsComponents {
  readonly directory: Pick<Directory, 'agentByToken' | 'watchToken' | 'readsProject' | 'onChange'>
  readonly configurations: AgentConfigurations
  /** told who registers */
  readonly connectedAgents: ConnectedAgents
  readonly usage: Usage
  /** told whose configuration GitLab wants; absent: it wants none */
  readonly posts?: Pick<ConfigurationPosts, 'follow'>
  readonly recentPushes: RecentPushes
  /** absent: there is no GitLab that agents could call */
  readonly passToGitlab?: MakeRequestComponents['passToGitlab']
  readonly register: Registry
  readonly log: Logger
}

/** Registrations that an agent before 16.5 makes by its configuration stream are renewed this often. ms */
const registrationRenewalMs = 300_000

/** What agents may call on 8150 beside Connect: the modules, each under its methods. */
export function agentMethods(
  components: AgentMethodsComponents,
  options: ConfigurationOptions,
): Readonly<Record<string, AgentMethod>> {
  const methods: Record<string, AgentMethod> = {
    [getConfigurationMethod]: { streaming: true, serve: configuration(components, options) },
    ...flux(components),
    ...gitlabAccess(components),
  }
  for (const [name, handler] of agentTrackerHandlers(components)) methods[name] = { streaming: false, serve: handler }
  return methods
}

function configuration(
  { directory, configurations, connectedAgents, posts, log }: AgentMethodsComponents,
  options: ConfigurationOptions,
): AgentMethod['serve'] {
  return async (agent, stream, retired) => {
    const handle = configurationHandler<typeof stream>(
      {
        configurations,
        authenticate: ({ metadata, signal }) => directory.agentByToken(bearerToken(metadata), signal),
        retired: () => retired,
        onDirectoryChange: changesOf(directory, agent),
        connected: (pod, meta) => keepRegistered(connectedAgents, pod, meta),
        log,
      },
      options,
    )
    const unfollow = posts?.follow(agent)
    const release = directory.watchToken?.(bearerToken(stream.metadata))
    try {
      await handle(agent, stream)
    } finally {
      unfollow?.()
      release?.()
    }
  }
}

/** Nothing where nobody can say which projects an agent may hear of. */
function flux(components: AgentMethodsComponents): Readonly<Record<string, AgentMethod>> {
  const { directory, recentPushes, register, usage, log } = components
  if (!directory.readsProject) return {}
  const shared = {
    pushes: recentPushes,
    metrics: createFluxMetrics(register),
    usage,
    log,
  }
  const serve: AgentMethod['serve'] = async (agent, stream, retired) => {
    const token = bearerToken(stream.metadata)
    const handle = reconcileProjectsHandler<typeof stream>({
      ...shared,
      authenticate: ({ signal }) => directory.agentByToken(token, signal),
      readsProject: async (_, projectPath, signal) =>
        (await directory.readsProject?.(token, projectPath, signal)) ?? false,
      retired: () => retired,
      onDirectoryChange: changesOf(directory, agent),
    })
    const release = directory.watchToken?.(token)
    try {
      await handle(agent, stream)
    } finally {
      release?.()
    }
  }
  return { [reconcileProjectsMethod]: { streaming: true, serve } }
}

function gitlabAccess({ passToGitlab, log }: AgentMethodsComponents): Readonly<Record<string, AgentMethod>> {
  if (!passToGitlab) return {}
  const handle = makeRequestHandler({ passToGitlab, log })
  const serve: AgentMethod['serve'] = (agent, stream) => handle(agent, stream, bearerToken(stream.metadata))
  return { [gitlabAccessMethod]: { streaming: false, serve } }
}

/** For metrics: Connect is among them. */
export function methodTypes(methods: Readonly<Record<string, AgentMethod>>): Readonly<Record<string, GrpcType>> {
  const types = Object.entries(methods).map(([name, method]) => [name, typeOf(name, method)] as const)
  return { [connectMethod]: 'bidi_stream', ...Object.fromEntries(types) }
}

function typeOf(name: string, { streaming }: AgentMethod): GrpcType {
  if (name === gitlabAccessMethod) return 'bidi_stream'
  return streaming ? 'server_stream' : 'unary'
}

/** Subscribes to changes of the directory that may concern the agent. */
function changesOf(directory: Pick<Directory, 'onChange'>, { id }: Agent): (listener: () => void) => () => void {
  return (listener) => {
    const heard = (agentIds?: ReadonlySet<Agent['id']>) => {
      if (!agentIds || agentIds.has(id)) listener()
    }
    return directory.onChange?.(heard) ?? (() => undefined)
  }
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

import type { FollowedConfig } from '../../agent-config/agent-configs.ts'
import type { AgentCall } from '../../agent-method.ts'
import type { KasHost, KasModule, StatusLine } from '../../module.ts'
import { type ConfigurationOptions, getConfiguration, getConfigurationMethod } from './configuration.ts'
import { ConfigurationPosts } from './configuration-posts.ts'

/** The part of the agent tracker for agents before 16.5, which register by their configuration stream alone. */
export interface AgentRegistry {
  keepRegistered(agent: AgentCall['agent'], meta: Uint8Array): () => void
}

/** room for a commit and the agent's meta */
const maxMessageBytes = 16 * 1024
/**
 * Streams of an agent (`method_calls_of_agent`): a pod keeps one open, and two while it moves. Each checks its token at
 * every poll, and may not read its answers.
 */
const maxPerAgent = 250
/** Rate for all of them at once, each with the agent's meta, and again 20 s later. */
const rate = { perSecond: 100, burst: 2000, cost: { call: 1, message: 1, kib: 1 } }

/** Sends agents their configuration, and posts it to GitLab. */
export function createConfiguration(host: KasHost, tracker: AgentRegistry, options: ConfigurationOptions): KasModule {
  const { agentConfig, gitlab, leads, clock, log } = host
  const register: AgentRegistry['keepRegistered'] = (agent, meta) => tracker.keepRegistered(agent, meta)
  const serve = getConfiguration({ agentConfig, register, clock, log }, options)
  const posts =
    gitlab &&
    new ConfigurationPosts({ agentConfig, gitlab, leads, clock, log: log.child({ mod_name: 'configuration' }) })
  const followed = (call: AgentCall) => {
    const end = posts?.follow(call.agent)
    return serve(call).finally(() => end?.())
  }
  return {
    name: 'configuration',
    agentMethods: {
      [getConfigurationMethod]: {
        type: 'server_stream',
        patient: true,
        maxMessageBytes,
        maxPerAgent,
        rate,
        serve: followed,
      },
    },
    ...(posts ? { services: [posts] } : {}),
    status: () => unservedKeys(agentConfig.allFollowed()),
  }
}

/** Agents that `kas status` names. */
const maxLines = 20

/** Lists keys of followed agents' files that have no effect: GitLab will ask for them in vain. */
export function unservedKeys(followed: readonly FollowedConfig[]): StatusLine[] {
  const lines = followed.flatMap(({ agent, good }): StatusLine[] => {
    const warning = good?.configuration.warnings.find(({ kind }) => kind === 'unserved')
    if (!warning) return []
    const of = `agent ${agent.id}, ${agent.name} of ${agent.project.path}`
    return [[of, `${warning.key} has no effect: ${warning.hint}`]]
  })
  if (lines.length <= maxLines) return lines
  return [...lines.slice(0, maxLines), ['and more such agents', lines.length - maxLines]]
}

import { type Clock, systemClock } from '../../../lib/clock.ts'
import { Deadline } from '../../../lib/deadline.ts'
import type { Agent } from '../../agent.ts'
import type { AgentConfigs } from '../../agent-config/agent-configs.ts'
import type { DirectoryContents, User } from './directory-contents.ts'
import { decideUserAccess } from './user-access.ts'

/** Configurations that are read at once: repositories are fetched for agents that were not used recently. */
const maxReadsAtOnce = 4
/** the longest that all reads may take, in ms */
const maxReadMs = 10_000
/** Agents whose configuration is read, in the order of the file. */
const maxAgents = 2000

/**
 * Lists the agents whose `user_access` admits a user.
 *
 * @throws the signal's reason
 */
export async function agentsOfUser(
  { configurations, clock = systemClock }: { configurations: Pick<AgentConfigs, 'current'>; clock?: Clock },
  { user, contents }: { user: User; contents: DirectoryContents },
  signal: AbortSignal,
): Promise<{ agents: Agent[]; unread: number }> {
  const ended = new Deadline({ ms: maxReadMs, clock, signals: [signal] })
  const all = [...contents.agents.values()]
  const agents = all.slice(0, maxAgents)
  const found = new Set<Agent>()
  let unread = all.length - agents.length
  const left = agents.values()
  const readNext = async () => {
    for (const agent of left) {
      try {
        const read = ended.signal.aborted ? undefined : await configurations.current(agent, ended.signal)
        if (ended.signal.aborted) unread++
        else if (decideUserAccess(user, read?.configuration.userAccess, contents).allowed) found.add(agent)
      } catch {
        unread++ // the log has the reason
      }
    }
  }
  try {
    await Promise.all(Array.from({ length: maxReadsAtOnce }, readNext))
  } finally {
    ended.end()
  }
  signal.throwIfAborted()
  return { agents: agents.filter((agent) => found.has(agent)), unread }
}

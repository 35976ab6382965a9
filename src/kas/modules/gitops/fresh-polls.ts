import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { Gitops } from '../../../proto/gen/replica_gitops_pb.ts'
import type { KasHost } from '../../module.ts'
import type { Peers } from '../../peers/peers.ts'
import type { Reading } from '../../repositories/repositories.ts'
import type { FollowedCommits } from './followed-commits.ts'

export interface FreshPollsComponents {
  readonly repositories: Pick<KasHost['repositories']['trees'], 'pollAndReport'>
  readonly commits: Pick<FollowedCommits, 'readings'>
  readonly agentConfig: Pick<KasHost['agentConfig'], 'followed'>
  readonly peers: Pick<Peers, 'first' | 'call' | 'broadcast'>
  readonly clock: Clock
  readonly log: Logger
}

/** From one poll for callers to the next, for each agent and over all replicas, in ms. */
const pauseMs = 5000
/** agents that were polled a moment ago; while there are more, others are not polled */
const maxAgents = 10_000

/**
 * Polls for callers: of the repositories of an agent's sources and of its configuration. One replica decides for all,
 * so that callers share a poll.
 */
export class FreshPolls {
  readonly #components: FreshPollsComponents
  /** agents that were polled less than `pauseMs` ago, with the function that cancels the timer */
  readonly #recent = new Map<AgentId, () => void>()
  #hasStopped = false

  constructor(components: FreshPollsComponents) {
    this.#components = components
  }

  /** Polls for a caller at this replica. The caller does not wait for the result. */
  ask(agentId: AgentId): void {
    const { peers, log } = this.#components
    const first = peers.first(`gitops polls of agent ${agentId}`)
    if (first === 'self' || first === undefined) {
      this.decide(agentId)
      return
    }
    peers.call(first.instance, Gitops.method.poll, { agentId, decides: true }).catch((error: unknown) => {
      log.debug({ error, instance: first.instance }, 'A replica does not poll for a caller')
    })
  }

  /** Makes all replicas poll the repositories that they follow for the agent, unless they did so a moment ago. */
  decide(agentId: AgentId): void {
    const { peers, clock } = this.#components
    if (this.#hasStopped || this.#recent.has(agentId) || this.#recent.size >= maxAgents) return
    this.#recent.set(
      agentId,
      clock.after(pauseMs, () => this.#recent.delete(agentId)),
    )
    this.pollOwn(agentId)
    void peers.broadcast(Gitops.method.poll, { agentId, decides: false })
  }

  /** Polls the repositories that this replica follows for the agent, each project once. */
  pollOwn(agentId: AgentId): void {
    const { repositories, log } = this.#components
    const projects = new Set(this.#readings(agentId).map(({ project }) => project.id))
    for (const projectId of projects) {
      repositories.pollAndReport(projectId).catch((error: unknown) => {
        log.debug({ error, project_id: String(projectId) }, 'A repository could not be polled for a caller')
      })
    }
  }

  stop(): void {
    this.#hasStopped = true
    for (const cancel of this.#recent.values()) cancel()
    this.#recent.clear()
  }

  #readings(agentId: AgentId): readonly Reading[] {
    const { commits, agentConfig } = this.#components
    const followed = agentConfig.followed(agentId)
    return [...commits.readings(agentId), ...(followed ? [configurationReading(followed.agent)] : [])]
  }
}

/** Returns the ref of an agent's configuration: the default branch of its project. */
export function configurationReading({ id, project }: Pick<Reading, 'id' | 'project'>): Reading {
  return { id, project }
}

import type { Count, OutputKind, Time } from '../../../command/output.ts'

/**
 * Agents that you can access.
 *
 * @command kas agents
 */
export interface ReachableAgentList extends OutputKind<'ReachableAgentList'> {
  /** your user name */
  readonly user: string
  /** agents, by name */
  readonly items: readonly ReachableAgent[]
  /** number of agents whose configuration could not be read; you may have access to them, too */
  readonly unread: Count
}

/** An agent that you can access. */
export interface ReachableAgent {
  /** number of the agent */
  readonly id: Count
  /** name of the agent */
  readonly name: string
  /** path of the project that configures it */
  readonly project: string
  /** number of registered pods of agentk */
  readonly pods: Count
  /** replicas with a connection of the agent; empty: the agent is away */
  readonly connected: readonly ConnectedReplica[]
}

/** A replica with a connection of an agent. */
export interface ConnectedReplica {
  /** name of the replica */
  readonly replica: string
  /** start of the oldest connection */
  readonly since?: Time | undefined
}

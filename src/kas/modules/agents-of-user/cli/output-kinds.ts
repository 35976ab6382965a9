import type { Count, OutputKind, Time } from '../../../command/output.ts'

/**
 * Agents that let you in.
 *
 * @command kas agents
 */
export interface ReachableAgentList extends OutputKind<'ReachableAgentList'> {
  /** your user name */
  readonly user: string
  /** agents, by name */
  readonly items: readonly ReachableAgent[]
  /** agents whose configuration could not be read; they may let you in, too */
  readonly unread: Count
}

/** An agent that lets you in. */
export interface ReachableAgent {
  /** its number */
  readonly id: Count
  /** its name */
  readonly name: string
  /** path of the project that configures it */
  readonly project: string
  /** pods of agentk that are registered */
  readonly pods: Count
  /** replicas with a connection of the agent; none: the agent is away */
  readonly connected: readonly ConnectedReplica[]
}

/** A replica with a connection of an agent. */
export interface ConnectedReplica {
  /** name of the replica */
  readonly replica: string
  /** begin of the oldest connection */
  readonly since?: Time | undefined
}

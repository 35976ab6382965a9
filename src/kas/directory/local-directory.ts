import type { AgentId } from '../../call/call.ts'
import type { Agent } from '../agent.ts'
import type { DirectoryListener } from './directory.ts'

/** A user, and the agents that admit the user. */
export interface AgentsOfUser {
  readonly user: { readonly id: bigint; readonly username: string }
  /**
   * Lists the agents in the order of the directory. `unread` counts agents whose configuration was not read, or not in
   * time.
   *
   * @throws the signal's reason
   */
  list(signal: AbortSignal): Promise<{ readonly agents: readonly Agent[]; readonly unread: number }>
}

/** Objects of an agent's cluster that belong to an environment. */
export interface AgentEnvironment {
  /** `<project id>/<slug>` */
  readonly key: string
  /** empty: any namespace */
  readonly namespace: string
  /** labels of the objects; empty: all objects */
  readonly selector: Readonly<Record<string, string>>
}

/**
 * Knowledge of a directory that is kept here as a whole, in a file. GitLab answers one question at a time and offers
 * none of it.
 */
export interface LocalDirectory {
  /**
   * Returns the token's user, and the agents whose `user_access` admits that user.
   *
   * @throws KasError USER_UNAUTHORIZED, USER_FAILED
   */
  agentsOfUser(token: string): AgentsOfUser
  /** True if the user is at least a developer of the project, by a role in it or in a group above it. */
  isDeveloper(userId: bigint, projectId: bigint): boolean
  /** Returns the environments of an agent's cluster and their objects, beside those that labels name. */
  environmentsOf(agentId: AgentId): readonly AgentEnvironment[]
  /**
   * Calls `listener` after answers of `grantJob` and `grantUser` may have changed, until the returned function is
   * called. The change concerns the agents passed to it, or all agents.
   */
  onGrantsChange(listener: DirectoryListener): () => void
}

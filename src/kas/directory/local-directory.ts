import type { AgentId } from '../../call/call.ts'
import type { Agent } from '../agent.ts'
import type { DirectoryListener } from './directory.ts'

/** A user, and the agents that let him in. */
export interface AgentsOfUser {
  readonly user: { readonly id: bigint; readonly username: string }
  /**
   * In the order of the directory. Agents whose configuration cannot be read, or not in time, are counted alone.
   *
   * @throws the signal's reason
   */
  list(signal: AbortSignal): Promise<{ readonly agents: readonly Agent[]; readonly unread: number }>
}

/** Objects of an agent's cluster that are deployed to an environment. */
export interface AgentEnvironment {
  /** `<project id>/<slug>` */
  readonly key: string
  /** empty: any */
  readonly namespace: string
  /** labels that they have; empty: all objects */
  readonly selector: Readonly<Record<string, string>>
}

/** What a directory knows that is kept here as a whole, in a file. GitLab answers question by question: it has none of it. */
export interface LocalDirectory {
  /**
   * Whose token it is, and which agents let him in by their `user_access`.
   *
   * @throws KasError USER_UNAUTHORIZED, USER_FAILED
   */
  agentsOfUser(token: string): AgentsOfUser
  /** What is deployed to which environment in the cluster of an agent, beside what labels say. */
  environmentsOf(agentId: AgentId): readonly AgentEnvironment[]
  /**
   * Calls `listener` after what `grantJob` and `grantUser` answer may have changed, of all agents or of those it is given,
   * until the returned function is called. Without it, who wants to know asks from time to time.
   */
  onGrantsChange(listener: DirectoryListener): () => void
}

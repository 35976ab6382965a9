import type { AgentId } from '../../call/call.ts'
import type { Agent } from '../agent.ts'
import type { GitalyCoordinates } from '../repositories/gitaly/gitaly-coordinates.ts'

/** A request to one of GitLab's modules, on behalf of the agent with this token. */
export interface GitlabRequest {
  readonly method: string
  /** `/<module>/<path>?<query>`, encoded */
  readonly target: string
  /** name, value, name, value */
  readonly headers: readonly string[]
  readonly token: string
  /** in bytes; undefined: unknown if there is a body */
  readonly contentLength?: number
  /** undefined: the request has none */
  readonly body?: AsyncIterable<Uint8Array>
}

export interface GitlabAnswer {
  readonly statusCode: number
  readonly statusText: string
  /** name, value, name, value */
  readonly rawHeaders: readonly string[]
  readonly body: AsyncIterable<Uint8Array>
}

/** Answer for an agent's token. */
export interface TokenAnswer {
  readonly agent: Agent
  /** when the answer was requested, in ms since 1970 */
  readonly askedAt: number
  /** location of the repository of the agent's project; undefined: it is not known */
  readonly coordinates?: GitalyCoordinates | undefined
}

/**
 * Answers for agents' tokens that this replica keeps, by the tokens' hashes. Answers of other replicas can be added.
 */
export interface TokenAnswers {
  /** hashes of the kept answers */
  hashes(): Iterable<string>
  of(hash: string): TokenAnswer | undefined
  /** Calls `listener` after an answer that is kept, until the returned function is called. */
  onAnswer(listener: (hash: string) => void): () => void
  /** Keeps another replica's answer, unless the answer that is known here is newer. */
  learn(hash: string, answer: TokenAnswer): void
}

/** Services of GitLab for agents beside authentication and permissions. A directory file offers none of them. */
export interface Gitlab {
  /**
   * Keeps the answer for the token of a connected agent current, until the returned function is called. An old answer
   * is requested again; if the new one is a refusal, the directory's `onChange` reports it.
   */
  watchToken(token: string): () => void
  /** Kept answers for agents' tokens, for other replicas. */
  readonly tokenAnswers: TokenAnswers
  /**
   * Sends an agent's configuration to GitLab: the whole file as JSON, with its keys as they are there. Never called
   * after a read that failed (doc/reference/gitlab-contract.md 9.1 no. 9 and 10).
   *
   * @throws KasError DIRECTORY_UNAVAILABLE (try again)
   */
  takeConfiguration(
    agentId: AgentId,
    configuration: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<'taken' | 'agent_removed'>
  /**
   * Makes an agent's request to one of GitLab's modules. Resolves after `take` has taken the answer
   * (doc/reference/tunnel-protocol.md 5.3).
   *
   * @throws KasError GITLAB_UNREACHABLE, GITLAB_BUSY, what `take` or the request's body threw, or the signal's reason
   */
  passToGitlab(
    request: GitlabRequest,
    take: (answer: GitlabAnswer) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void>
}

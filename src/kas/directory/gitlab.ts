import type { AgentId } from '../../call/call.ts'
import type { Agent } from '../agent.ts'
import type { GitalyCoordinates } from '../repositories/gitaly/gitaly-coordinates.ts'

/** A request to one of GitLab's modules, on behalf of the agent whose token it is. */
export interface GitlabRequest {
  readonly method: string
  /** `/<module>/<path>?<query>`, encoded */
  readonly target: string
  /** name, value, name, value */
  readonly headers: readonly string[]
  readonly token: string
  /** undefined: unknown, if there is a body */
  readonly contentLength?: number
  /** absent: none */
  readonly body?: AsyncIterable<Uint8Array>
}

export interface GitlabAnswer {
  readonly statusCode: number
  readonly statusText: string
  /** name, value, name, value */
  readonly rawHeaders: readonly string[]
  readonly body: AsyncIterable<Uint8Array>
}

/** What was said of an agent's token. */
export interface TokenAnswer {
  readonly agent: Agent
  /** when that was asked for. ms since 1970 */
  readonly askedAt: number
  /** where the repository of the agent's project lies; absent: it is not known */
  readonly coordinates?: GitalyCoordinates | undefined
}

/** What a directory keeps of agents' tokens, by their hashes, and what other replicas were answered. */
export interface TokenAnswers {
  /** of what is kept now */
  hashes(): Iterable<string>
  of(hash: string): TokenAnswer | undefined
  /** Calls `listener` after an answer that is kept, until the returned function is called. */
  onAnswer(listener: (hash: string) => void): () => void
  /** As if it had been answered here, unless what is known here is newer. */
  learn(hash: string, answer: TokenAnswer): void
}

/** What GitLab does for agents and takes of them, beside saying who is who. With a directory file there is none of it. */
export interface Gitlab {
  /**
   * The agent of this token is connected, until the returned function is called: the answer is asked for anew whenever
   * it is old, and the directory's `onChange` reports when it is a refusal.
   */
  watchToken(token: string): () => void
  /** What is kept of agents' tokens, for other replicas. */
  readonly tokenAnswers: TokenAnswers
  /**
   * Takes the configuration of an agent, the whole file as JSON with its keys as they stand there; never after a read
   * that failed (doc/reference/gitlab-contract.md 9.1 no. 9 and 10).
   *
   * @throws KasError DIRECTORY_UNAVAILABLE (try again)
   */
  takeConfiguration(
    agentId: AgentId,
    configuration: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<'taken' | 'agent_removed'>
  /**
   * Makes an agent's request to one of GitLab's modules, and has the answer taken before it resolves
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

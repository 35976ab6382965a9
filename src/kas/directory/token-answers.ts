import type { Agent } from '../agent.ts'
import type { GitalyCoordinates } from '../repositories/gitaly/gitaly-coordinates.ts'

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

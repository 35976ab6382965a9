import type { Metadata } from '../call/call.ts'
import { KasError } from '../lib/errors.ts'
import type { Agent } from './agent.ts'

/** What a module needs of an agent's call that stays open; a ServerStream has it. */
export interface AgentStream {
  readonly metadata: Metadata
  readonly messages: AsyncIterable<Uint8Array>
  readonly signal: AbortSignal
  sendMetadata(metadata: Metadata): void
  send(message: Uint8Array): Promise<void> | undefined
}

/** Who may have such a call, and for how long. */
export interface AgentStreamTerms<Stream extends AgentStream> {
  /** Asks anew whose call this is: throws a KasError once the token is void. */
  authenticate(stream: Stream): Promise<Agent>
  /** Aborts when the stream should end with OK, for the agent to open it on a newer connection. */
  retired(stream: Stream): AbortSignal
  /** Calls `listener` when the token may have become void. */
  onDirectoryChange?(listener: () => void): () => void
}

/** @throws KasError once the token is void, or another agent's; not while nobody can say */
export async function stillTheAgents<Stream extends AgentStream>(
  { authenticate }: Pick<AgentStreamTerms<Stream>, 'authenticate'>,
  agent: Agent,
  stream: Stream,
): Promise<void> {
  try {
    const { id } = await authenticate(stream)
    if (id !== agent.id) throw new KasError({ code: 'UNAUTHENTICATED' })
  } catch (error) {
    if (KasError.from(error).code !== 'DIRECTORY_UNAVAILABLE') throw error
  }
}

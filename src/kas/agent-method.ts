import type { Metadata } from '../call/call.ts'
import type { GrpcType } from '../lib/metrics.ts'
import type { Rate } from '../lib/rate-limit.ts'
import type { Agent } from './agent.ts'

/** A method that kas serves to agents on 8150. */
export interface AgentMethod {
  /** for metrics */
  readonly type: GrpcType
  /** of one message of the agent's, which is decoded as a whole; absent: as of gRPC, for what is passed on */
  readonly maxMessageBytes?: number
  /** calls that one agent may have open at a replica; absent: as many as all its calls together */
  readonly maxPerAgent?: number
  readonly rate: MethodRate
  /** Its calls wait while the directory is away; their token is watched. */
  readonly patient: boolean
  /** @returns trailers */
  // biome-ignore lint/suspicious/noConfusingVoidType: a method without trailers returns nothing
  serve(call: AgentCall): Promise<Metadata | void>
}

/**
 * What one agent may take of a replica by way of a method, over all its calls: a unit is some 0.1 ms of the event loop at
 * the worst. What is over waits, calls and their messages, so that the agent sends slower; a call that would wait for
 * too long is refused. A stock agent never waits (doc/operations.md "What an agent may call, and how often").
 */
export interface MethodRate extends Rate {
  /** units of each call that begins, of each message that an agent sends in it, and of 1024 bytes of that */
  readonly cost: { readonly call: number; readonly message: number; readonly kib: number }
}

/** A call on 8150 by an agent who has been let in. */
export interface AgentCall {
  readonly agent: Agent
  /** by which the directory is asked */
  readonly token: string
  readonly metadata: Metadata
  /** each is paid for by the agent, and comes no sooner */
  readonly messages: AsyncIterable<Uint8Array>
  /**
   * Charges the agent for work beside its messages, in units of the method's rate.
   *
   * @param atMostMs - it waits no longer: what is owed then delays what the agent does next; absent: until it has paid
   * @returns undefined to go on, or a promise that the agent has paid; it rejects with the signal's reason
   */
  spend(units: number, atMostMs?: number): Promise<void> | undefined
  /** aborts when the call has ended, or is cut */
  readonly signal: AbortSignal
  /** aborts when the call should end with OK, for the agent to open it on a newer connection */
  readonly retired: AbortSignal
  sendMetadata(metadata: Metadata): void
  /** @returns undefined to go on, or a promise of room */
  send(message: Uint8Array): Promise<void> | undefined
  /** @throws KasError once the token is void, or another agent's; not while nobody can say */
  stillValid(): Promise<void>
  /** Calls `listener` after a change that may concern the agent, until the returned function is called. */
  onDirectoryChange(listener: () => void): () => void
}

import type { Metadata } from '../call/call.ts'
import type { GrpcType } from '../lib/metrics.ts'
import type { Rate } from '../lib/rate-limit.ts'
import type { Agent } from './agent.ts'

/** A method that kas serves to agents on 8150. */
export interface AgentMethod {
  /** for metrics */
  readonly type: GrpcType
  /**
   * bound of one message of the agent, which is decoded as a whole; absent: that of gRPC, for messages that are passed
   * on
   */
  readonly maxMessageBytes?: number
  /** open calls of one agent at a replica; absent: the bound of all its calls together */
  readonly maxPerAgent?: number
  readonly rate: MethodRate
  /** True: its calls wait while the directory is away, and their tokens are checked meanwhile. */
  readonly patient: boolean
  /** @returns trailers */
  // biome-ignore lint/suspicious/noConfusingVoidType: a method without trailers returns nothing
  serve(call: AgentCall): Promise<Metadata | void>
}

/**
 * Rate of a method, for one agent over all its calls to a replica. A unit is at worst some 0.1 ms of the event loop.
 * Calls and messages above the rate wait, so that the agent sends slower. A call that would wait for too long is
 * refused. A stock agent never waits (doc/operate/operations.md "What an agent may call, and how often").
 */
export interface MethodRate extends Rate {
  /** units of each call, of each message that an agent sends in it, and of each 1024 bytes of the message */
  readonly cost: { readonly call: number; readonly message: number; readonly kib: number }
}

/** A call on 8150 by an agent that has been let in. */
export interface AgentCall {
  readonly agent: Agent
  /** token, with which the directory is asked */
  readonly token: string
  readonly metadata: Metadata
  /** messages, each of which is delayed until the agent has paid for it */
  readonly messages: AsyncIterable<Uint8Array>
  /**
   * Charges the agent for work beside its messages, in units of the method's rate.
   *
   * @param atMostMs - bound of the wait; the rest of the debt then delays the agent's next calls. Absent: until it is
   *   paid
   * @returns undefined: the call may go on; else a promise of the payment, which rejects with the signal's reason
   */
  spend(units: number, atMostMs?: number): Promise<void> | undefined
  /** aborts once the call has ended, or is cut */
  readonly signal: AbortSignal
  /** aborts once the call should end with OK, so that the agent opens it on a newer connection */
  readonly retired: AbortSignal
  sendMetadata(metadata: Metadata): void
  /** @returns undefined: the call may go on; else a promise of room */
  send(message: Uint8Array): Promise<void> | undefined
  /** @throws KasError once the token is void, or another agent's; not while that is unknown */
  stillValid(): Promise<void>
  /** Calls `listener` after a change that may affect the agent, until the returned function is called. */
  onDirectoryChange(listener: () => void): () => void
}

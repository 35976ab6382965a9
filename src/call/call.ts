import type { KasError } from '../lib/errors.ts'
import type { Caller } from './caller.ts'
import type { KnownMessages } from './known-messages.ts'

/** An agent as GitLab knows it: a positive 64-bit number. */
export type AgentId = bigint & { readonly brand: 'AgentId' }

/** GitLab keeps ids as signed 64-bit numbers. */
export const maxAgentId = 2n ** 63n - 1n

/** @returns undefined: the text is no agent id */
export function parseAgentId(text: string): AgentId | undefined {
  const id = /^\d{1,19}$/.test(text) ? BigInt(text) : 0n
  return id > 0n && id <= maxAgentId ? (id as AgentId) : undefined
}

/** Metadata as on the wire: lower-case keys, values in order; values of keys that end in `-bin` are base64. */
export type Metadata = Readonly<Record<string, readonly string[]>>

export const noMetadata: Metadata = Object.freeze({})

/** The end of a call: `error` is absent when the status is OK. */
export interface Outcome {
  readonly error?: KasError | undefined
  readonly trailers: Metadata
}

/** `safe`: a repeat does no harm, even if the first request has arrived. */
export type Safety = 'safe' | 'unsafe'

/** One call for an agent. Messages stay bytes from the entry to agentk. */
export interface Call {
  readonly agentId: AgentId
  /** `/package.Service/Method` */
  readonly method: string
  readonly metadata: Metadata
  /**
   * Messages of the caller, read once, as fast as the next hop takes them. The end is the caller's half-close.
   * `KnownMessages` can be read again.
   */
  readonly messages: KnownMessages | AsyncIterable<Uint8Array>
  readonly safety: Safety
  /** the call uses this caller's share of the agent's tunnels */
  readonly caller: Caller
  /** the call watches events until its caller leaves */
  readonly isWatch?: boolean
  /** the call follows a log: if it cannot go on, the caller must see that the log is incomplete */
  readonly isLog?: boolean
  /** The caller opens the call again if it is lost, so a replica link ends it as soon as the peer is unreachable. */
  readonly reopens?: boolean
  /** The caller knows that the agent is away, or has an answer already, and takes the first tunnel that comes. */
  readonly waitsForAway?: boolean
  /** absent: nobody wants to know whose tunnel has it */
  readonly observer?: CallObserver | undefined
  /** the caller left, or its deadline passed: the reason is a KasError */
  readonly signal: AbortSignal
}

export interface CallObserver {
  /**
   * Called when a tunnel has taken the call, and again when the call is repeated.
   *
   * @param peer - name of the replica that has the tunnel; undefined: this replica
   */
  takenBy(peer: string | undefined): void
}

/** The reply to a call. None of its promises rejects; only `done` says how the call ended. */
export interface Reply {
  /** headers of the callee; undefined: the call ended before they came */
  readonly metadata: Promise<Metadata | undefined>
  /** must be read to the end, or returned, so that `done` settles; an early return cancels the call */
  readonly messages: AsyncIterable<Uint8Array>
  readonly done: Promise<Outcome>
}

/**
 * Every stage of a call has this shape: the router, a replica link, a tunnel, agentk's dispatch. It resolves once a
 * tunnel has the call.
 *
 * @throws KasError if the call could not be passed on at all
 */
export type Forward = (call: Call) => Promise<Reply>

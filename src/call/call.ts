import type { KasError } from '../lib/errors.ts'
import type { Caller } from './caller.ts'
import type { KnownMessages } from './known-messages.ts'

/** An agent as GitLab knows it: a positive 64-bit number. */
export type AgentId = bigint & { readonly brand: 'AgentId' }

/** GitLab keeps ids as signed 64-bit numbers. */
export const maxAgentId = 2n ** 63n - 1n

/** @returns undefined: the text is no id of an agent */
export function parseAgentId(text: string): AgentId | undefined {
  const id = /^\d{1,19}$/.test(text) ? BigInt(text) : 0n
  return id > 0n && id <= maxAgentId ? (id as AgentId) : undefined
}

/**
 * Metadata as on the wire: lower-case keys, values in order; the values of keys that end in `-bin` are base64.
 */
export type Metadata = Readonly<Record<string, readonly string[]>>

export const noMetadata: Metadata = Object.freeze({})

/** The end of a call: `error` is absent when the status is OK. */
export interface Outcome {
  readonly error?: KasError | undefined
  readonly trailers: Metadata
}

/** `safe`: a repeat can do no harm, also if the first one arrived. */
export type Safety = 'safe' | 'unsafe'

/** One call for an agent. Messages stay bytes from the entry to agentk. */
export interface Call {
  readonly agentId: AgentId
  /** `/package.Service/Method` */
  readonly method: string
  readonly metadata: Metadata
  /**
   * Read once, pulled as fast as the next hop takes them; its end is the caller's half-close. All known: they may be read
   * again.
   */
  readonly messages: KnownMessages | AsyncIterable<Uint8Array>
  readonly safety: Safety
  /** whose share of the agent's tunnels it takes */
  readonly caller: Caller
  /** of events, until its caller leaves */
  readonly isWatch?: boolean
  /** that is followed: where it cannot go on its caller has to see that it is not whole */
  readonly isLog?: boolean
  /** Its caller opens it again when it is lost: it is not kept where its replies are out of reach for a while. */
  readonly reopens?: boolean
  /** Its caller knows that the agent is away, or has an answer already, and wants the first tunnel that comes. */
  readonly waitsForAway?: boolean
  /** whoever wants to know whose tunnel has it; absent: nobody */
  readonly record?: Taken | undefined
  /** the caller left, or its deadline passed: the reason is a KasError */
  readonly signal: AbortSignal
}

export interface Taken {
  /**
   * A tunnel has it, once more where it is repeated.
   *
   * @param peer - name of the replica whose it is; undefined: this one's
   */
  takenBy(peer: string | undefined): void
}

/** What comes back. None of its promises rejects; how the call ended, `done` alone says. */
export interface Reply {
  /** the callee's headers; undefined: the call ended before they came */
  readonly metadata: Promise<Metadata | undefined>
  /** must be read to the end, or returned, for `done` to settle; returning early cancels the call */
  readonly messages: AsyncIterable<Uint8Array>
  readonly done: Promise<Outcome>
}

/**
 * Every stage of a call has this shape: the router, a replica link, a tunnel, agentk's dispatch. It resolves once a tunnel
 * has the call.
 *
 * @throws KasError when the call could not be handed on at all
 */
export type Forward = (call: Call) => Promise<Reply>

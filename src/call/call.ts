import type { KasError } from '../lib/errors.ts'

/** An agent as GitLab knows it: a positive 64-bit number. */
export type AgentId = bigint & { readonly brand: 'AgentId' }

/**
 * Metadata as on the wire: lower-case keys, values in order; the values of keys that end in `-bin` are base64.
 */
export type Metadata = Readonly<Record<string, readonly string[]>>

export const noMetadata: Metadata = Object.freeze({})

/** The end of a call: `error` is absent when the status is OK. */
export interface Outcome {
  readonly error?: KasError
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
  /** read once, pulled as fast as the next hop takes them; its end is the caller's half-close */
  readonly messages: AsyncIterable<Uint8Array>
  readonly safety: Safety
  /** the caller left, or its deadline passed: the reason is a KasError */
  readonly signal: AbortSignal
}

/**
 * What comes back. None of its promises rejects but `ready`; how the call ended is told by `done` alone.
 */
export interface Reply {
  /** a tunnel has the call; rejects with a KasError when none will */
  readonly ready: Promise<void>
  /** the callee's headers; `noMetadata` itself, which headers never are, if the call ended before they came */
  readonly metadata: Promise<Metadata>
  /** must be read to the end, or returned, for `done` to settle; returning early cancels the call */
  readonly messages: AsyncIterable<Uint8Array>
  readonly done: Promise<Outcome>
}

/**
 * Every stage of a call has this shape: the router, a replica link, a tunnel, agentk's dispatch.
 *
 * @throws KasError when the call could not be handed on at all
 */
export type Forward = (call: Call) => Promise<Reply>

import { hash } from 'node:crypto'
import type { Metadata } from '../../../call/call.ts'
import { type ErrorCode, KasError } from '../../../lib/errors.ts'
import type { Agent } from '../../agent.ts'
import type { Directory } from '../../directory/directory.ts'
import { DirectoryPolls, isAway } from './directory-polls.ts'
import type { TokenCallCounts } from './limits/token-call-counts.ts'

export interface AuthenticatorOptions {
  /** calls that one token may start per clock minute, over all replicas; every call counts, not every connection */
  readonly callsPerTokenPerMinute: number
  /** pause between attempts while the directory is unavailable, doubled from the first to the last. ms */
  readonly retryMs: readonly [first: number, last: number]
}

export const defaultAuthenticatorOptions: AuthenticatorOptions = {
  callsPerTokenPerMinute: 40_000,
  retryMs: [20, 100],
}

/** Authenticates calls on 8150 by the token in their metadata (doc/reference/tunnel-protocol.md 2.3 and 2.6). */
export class Authenticator {
  readonly #directory: Pick<Directory, 'agentByToken'>
  readonly #options: AuthenticatorOptions
  readonly #counts: TokenCallCounts
  readonly #onRateExceeded: () => void
  readonly #polls: DirectoryPolls

  constructor(
    components: { directory: Pick<Directory, 'agentByToken'>; counts: TokenCallCounts; onRateExceeded: () => void },
    options: AuthenticatorOptions = defaultAuthenticatorOptions,
  ) {
    this.#directory = components.directory
    this.#counts = components.counts
    this.#onRateExceeded = components.onRateExceeded
    this.#options = options
    this.#polls = new DirectoryPolls(options)
  }

  /**
   * @param patient - the stream stays open while the directory is unavailable; else the call is UNAVAILABLE
   * @param counted - false for a Connect that replaces a used-up tunnel
   * @param from - trusted address of the client
   * @throws KasError UNAUTHENTICATED, FORBIDDEN, AGENT_NOT_FOUND, DIRECTORY_UNAVAILABLE, RATE_EXCEEDED,
   *   CREDENTIAL_NOT_CHECKED
   */
  async authenticate(
    metadata: Metadata,
    how: { patient: boolean; counted: boolean; from?: string },
    signal: AbortSignal,
  ): Promise<Agent> {
    const token = bearerToken(metadata)
    if (how.counted) this.#count(token)
    try {
      return await this.#ask(token, how, signal)
    } catch (error) {
      if (refusals.has(KasError.from(error).code)) this.#counts.refused(hashOf(token))
      throw error
    }
  }

  async #ask(
    token: string,
    { patient, from }: { patient: boolean; from?: string },
    signal: AbortSignal,
  ): Promise<Agent> {
    try {
      return await this.#directory.agentByToken(token, signal, from)
    } catch (error) {
      if (!patient || !isAway(error)) throw error
    }
    const ask = (polling: AbortSignal) => this.#directory.agentByToken(token, polling, from)
    return await this.#polls.wait(hashOf(token), ask, signal)
  }

  #count(token: string): void {
    if (this.#counts.add(hashOf(token)) <= this.#options.callsPerTokenPerMinute) return
    this.#onRateExceeded()
    throw new KasError({ code: 'RATE_EXCEEDED' })
  }
}

export function bearerToken(metadata: Metadata): string {
  const values = metadata.authorization ?? []
  const [scheme, token, ...rest] = (values[0] ?? '').split(' ')
  if (values.length !== 1 || scheme?.toLowerCase() !== 'bearer' || !token || rest.length > 0) {
    throw new KasError({ code: 'UNAUTHENTICATED', detail: 'authorization metadata must be one "Bearer <token>"' })
  }
  return token
}

const refusals: ReadonlySet<ErrorCode> = new Set(['UNAUTHENTICATED', 'FORBIDDEN', 'AGENT_NOT_FOUND'])

function hashOf(token: string): string {
  return hash('sha256', token, 'base64')
}

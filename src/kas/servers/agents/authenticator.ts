import { hash } from 'node:crypto'
import { KasError } from '../../../lib/errors.ts'
import { delay } from '../../../lib/signals.ts'
import type { Metadata } from '../../../proto/call.ts'
import type { Agent, Directory } from '../../directory/directory.ts'

export interface AuthenticatorOptions {
  /** calls that one token may start in a clock minute; every call counts, not every connection */
  readonly callsPerTokenPerMinute: number
  /** waits between tries while the directory is out of reach. ms, doubled from the first to the last */
  readonly retryMs: readonly [first: number, last: number]
}

export const defaultAuthenticatorOptions: AuthenticatorOptions = {
  callsPerTokenPerMinute: 40_000,
  retryMs: [20, 100],
}

const minuteMs = 60_000
/** Tokens that are counted in one minute, good or not: beyond it others pass uncounted. */
const maxCountedTokens = 100_000

/** Who makes a call on 8150: by the token in its metadata (wire-protocol 2.3 and 2.6). */
export class Authenticator {
  readonly #directory: Directory
  readonly #options: AuthenticatorOptions
  readonly #now: () => number
  readonly #onRateExceeded: () => void
  /** tries that run while the directory is away: one a token, shared by all its calls */
  readonly #retries = new Map<string, Promise<Agent>>()
  #minute = 0
  /** calls of this minute by hash of token: forgotten with the minute */
  #counts = new Map<string, number>()

  constructor(
    components: { directory: Directory; now: () => number; onRateExceeded: () => void },
    options: AuthenticatorOptions = defaultAuthenticatorOptions,
  ) {
    this.#directory = components.directory
    this.#now = components.now
    this.#onRateExceeded = components.onRateExceeded
    this.#options = options
  }

  /**
   * @param patient - a stream that stays open while the directory is out of reach; else that is UNAVAILABLE
   * @param counted - false for a Connect that replaces a used-up tunnel
   * @throws KasError UNAUTHENTICATED, FORBIDDEN, AGENT_NOT_FOUND, DIRECTORY_UNAVAILABLE, RATE_EXCEEDED
   */
  async authenticate(
    metadata: Metadata,
    how: { patient: boolean; counted: boolean },
    signal: AbortSignal,
  ): Promise<Agent> {
    const token = bearerToken(metadata)
    if (how.counted) this.#count(token)
    try {
      return await this.#directory.agentByToken(token, signal)
    } catch (error) {
      if (!how.patient || !isAway(error)) throw error
    }
    return this.#retry(token, signal)
  }

  #count(token: string): void {
    const minute = Math.floor(this.#now() / minuteMs)
    if (minute !== this.#minute) {
      this.#minute = minute
      this.#counts = new Map()
    }
    const hash = hashOf(token)
    const count = (this.#counts.get(hash) ?? 0) + 1
    if (count > this.#options.callsPerTokenPerMinute) {
      this.#onRateExceeded()
      throw new KasError({ code: 'RATE_EXCEEDED' })
    }
    if (count > 1 || this.#counts.size < maxCountedTokens) this.#counts.set(hash, count)
  }

  async #retry(token: string, signal: AbortSignal): Promise<Agent> {
    const hash = hashOf(token)
    const [firstMs, lastMs] = this.#options.retryMs
    for (let waitMs = firstMs; ; waitMs = Math.min(lastMs, waitMs * 2)) {
      await delay(waitMs, signal)
      let running = this.#retries.get(hash)
      if (!running) {
        running = this.#directory.agentByToken(token, signal).finally(() => this.#retries.delete(hash))
        this.#retries.set(hash, running)
      }
      try {
        return await running
      } catch (error) {
        signal.throwIfAborted()
        if (!isAway(error) && KasError.from(error).code !== 'CANCELLED') throw error
      }
    }
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

function hashOf(token: string): string {
  return hash('sha256', token, 'base64')
}

function isAway(error: unknown): boolean {
  return error instanceof KasError && error.code === 'DIRECTORY_UNAVAILABLE'
}

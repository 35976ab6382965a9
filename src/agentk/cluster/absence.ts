import type { Clock } from '../../lib/clock.ts'
import { errorText, KasError } from '../../lib/errors.ts'
import { pause } from '../../lib/pause.ts'

/** Dial errors that may pass in a moment; a wrong certificate or name is not one of them. */
const passing: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
  'UND_ERR_SOCKET',
])
/** Longest time that a call waits for a dead server that neither accepts nor refuses connections. ms */
const probeTimeoutMs = 5000
/** Pauses between attempts to reach a server that does not accept connections. ms */
const pauseMs = { first: 50, max: 1000, factor: 2 }

export interface AbsenceComponents {
  readonly clock: Clock
  /** opens one connection to the server, and closes it as soon as it is open; `signal` ends it */
  readonly dial: (signal: AbortSignal) => Promise<void>
}

/**
 * Absence of the API server, as all calls together have found it. Calls wait for a server that restarts. A server that
 * has been away for as long as a call waits is dead. Each call then asks it once, together with calls of the same
 * moment, and fails at once.
 */
export class Absence {
  readonly #components: AbsenceComponents
  readonly #patienceMs: number
  /** time of the first failed dial after the last success; undefined: the server is there */
  #since: number | undefined
  #reason: unknown
  #probing: Promise<void> | undefined

  /** @param options.patienceMs - from the first failed dial to the last attempt */
  constructor(components: AbsenceComponents, options: { patienceMs: number }) {
    this.#components = components
    this.#patienceMs = options.patienceMs
  }

  /** True if the server is dead. */
  get isLong(): boolean {
    return this.#since !== undefined && this.#leftMs(this.#since) === 0
  }

  /** Ends the absence: the server has accepted a connection, or answered on one. */
  reached(): void {
    this.#since = undefined
    this.#reason = undefined
  }

  /** Counts a failed dial. @returns ms left for further attempts; 0: another would not help, or it is too late */
  failed(error: unknown): number {
    if (!isPassing(error)) return 0
    this.#since ??= this.#components.clock.now()
    this.#reason = error
    return this.#leftMs(this.#since)
  }

  /**
   * Asks the dead server, once for all who ask at the same time.
   *
   * @throws KasError UNREACHABLE: the server is still away
   */
  probe(): Promise<void> {
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = undefined
    })
    return this.#probing
  }

  /** Adds the time since when the server is away to `error` of a call, if that is the cause. */
  explain(error: unknown): unknown {
    if (this.#since === undefined || !isPassing(error)) return error
    const since = new Date(this.#since).toISOString()
    const detail = `the API server has not answered since ${since}: ${errorText(error)}`
    return new KasError({ code: 'UNREACHABLE', detail }, { cause: error })
  }

  async #probe(): Promise<void> {
    const { clock, dial } = this.#components
    const ended = new AbortController()
    const late = pause(probeTimeoutMs, clock, ended.signal).then(() => {
      throw this.#reason
    })
    try {
      await Promise.race([dial(ended.signal), late])
      this.reached()
    } catch (error) {
      // an absent server fails the call; any other error the call meets by itself
      if (!isPassing(error)) this.reached()
      else throw this.explain(error)
    } finally {
      ended.abort()
      late.catch(() => undefined)
    }
  }

  #leftMs(since: number): number {
    return Math.max(0, since + this.#patienceMs - this.#components.clock.now())
  }
}

/** Patience of one call with a server that restarts, for one absence. */
export class DialPatience {
  readonly #absence: Pick<Absence, 'failed'>
  #pauseMs = pauseMs.first

  constructor(absence: Pick<Absence, 'failed'>) {
    this.#absence = absence
  }

  /** Counts a failed dial. @returns ms to the next attempt; undefined: another would not help, or it is too late */
  next(error: unknown): number | undefined {
    const leftMs = this.#absence.failed(error)
    if (leftMs === 0) return undefined
    const waitMs = Math.min(this.#pauseMs, leftMs)
    this.#pauseMs = Math.min(this.#pauseMs * pauseMs.factor, pauseMs.max)
    return waitMs
  }
}

function isPassing(error: unknown): boolean {
  return passing.has((error as NodeJS.ErrnoException | undefined)?.code ?? '')
}

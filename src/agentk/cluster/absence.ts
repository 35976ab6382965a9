import type { Clock } from '../../lib/clock.ts'
import { errorText, KasError } from '../../lib/errors.ts'
import { pause } from '../../lib/pause.ts'

/** A dial that ends like this may succeed a moment later; a wrong certificate or name is not among these. */
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
/** A dead server that neither takes nor refuses a connection holds a call this long at the most. ms */
const probeTimeoutMs = 5000
/** Pauses between attempts to reach a server that does not accept connections. ms */
const pauseMs = { first: 50, max: 1000, factor: 2 }

export interface AbsenceComponents {
  readonly clock: Clock
  /** one connection to the server, closed as soon as it is there; `signal` ends it */
  readonly dial: (signal: AbortSignal) => Promise<void>
}

/**
 * How long the API server has not been there, as all calls together have found. One that restarts is waited for; one
 * that has been away for as long as a call waits is dead: then each call asks once, together with those that come at
 * the same time, and fails at once.
 */
export class Absence {
  readonly #components: AbsenceComponents
  readonly #patienceMs: number
  /** of the first dial that failed after the last that did not */
  #since: number | undefined
  #reason: unknown
  #probing: Promise<void> | undefined

  /** @param options.patienceMs - from the first failed dial to the last attempt */
  constructor(components: AbsenceComponents, options: { patienceMs: number }) {
    this.#components = components
    this.#patienceMs = options.patienceMs
  }

  /** The server is dead. */
  get isLong(): boolean {
    return this.#since !== undefined && this.#leftMs(this.#since) === 0
  }

  /** The server has taken a connection, or answered on one. */
  reached(): void {
    this.#since = undefined
    this.#reason = undefined
  }

  /** A dial has failed. @returns for how long it may be tried again. ms; 0: another would not help, or it is too late */
  failed(error: unknown): number {
    if (!isPassing(error)) return 0
    this.#since ??= this.#components.clock.now()
    this.#reason = error
    return this.#leftMs(this.#since)
  }

  /**
   * Asks the dead server, once for all who want to know now.
   *
   * @throws KasError UNREACHABLE: it is still not there
   */
  probe(): Promise<void> {
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = undefined
    })
    return this.#probing
  }

  /** `error` of a call that is given up, with the time since when the server is away if that is why. */
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
      // not there: the call need not try. Anything else the call finds by itself
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

/** How one call waits for a server that restarts: one for each time it is away. */
export class DialPatience {
  readonly #absence: Pick<Absence, 'failed'>
  #pauseMs = pauseMs.first

  constructor(absence: Pick<Absence, 'failed'>) {
    this.#absence = absence
  }

  /** A dial has failed. @returns ms to the next attempt; undefined: another would not help, or it is too late */
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

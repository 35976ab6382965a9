/** Pauses between attempts to reach a server that does not accept connections. ms */
const pauseMs = { first: 50, max: 1000, factor: 2 }

/** The server is not there, or left while we dialled; a wrong certificate or name is not among these. */
const passing = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
  'UND_ERR_SOCKET',
])

/** How a request that could not be sent waits for a server that restarts: one for each time it is away. */
export class DialPatience {
  readonly #patienceMs: number
  /** of the first failure */
  #since: number | undefined
  #pauseMs = pauseMs.first

  /** @param patienceMs - from the first failure to the last attempt */
  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs
  }

  /** A dial has failed. @returns ms to the next attempt; undefined: another would not help, or the time is over */
  next(error: unknown): number | undefined {
    const now = performance.now()
    this.#since ??= now
    const leftMs = this.#patienceMs - (now - this.#since)
    if (leftMs <= 0 || !passing.has((error as NodeJS.ErrnoException).code ?? '')) return undefined
    const waitMs = Math.min(this.#pauseMs, leftMs)
    this.#pauseMs = Math.min(this.#pauseMs * pauseMs.factor, pauseMs.max)
    return waitMs
  }
}

import { backgroundClock, type Clock } from './clock.ts'
import { abortable, linkedController } from './signals.ts'

export interface DeadlineOptions {
  readonly ms: number
  /** absent: the system's, which does not keep the process from ending */
  readonly clock?: Clock
  /** other signals that end it, with their own reasons */
  readonly signals?: readonly (AbortSignal | undefined)[]
  /** makes the reason once the time is over; absent: a TimeoutError, as of AbortSignal.timeout */
  readonly reason?: () => unknown
}

/**
 * A signal that aborts after `ms`, or with other signals before. Its creator calls `end`, which removes timer and
 * listeners.
 */
export class Deadline {
  readonly #options: DeadlineOptions
  readonly #controller: ReturnType<typeof linkedController>
  #cancel: (() => void) | undefined
  #isPast = false

  constructor(options: DeadlineOptions) {
    this.#options = options
    this.#controller = linkedController(...(options.signals ?? []))
    if (!this.signal.aborted) this.#start()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** True if it aborted because the time was over, and for no other reason. */
  get isPast(): boolean {
    return this.#isPast
  }

  /** Aborts before the time is over, unless it is over already. */
  abort(reason?: unknown): void {
    this.end()
    this.#controller.abort(reason)
  }

  /** Restarts the time, unless it is over or the deadline has ended. */
  restart(): void {
    if (!this.#cancel) return
    this.#cancel()
    this.#start()
  }

  /** Removes the time limit: it aborts only with the other signals. */
  lift(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** Ends it: from then on only `abort` aborts it. */
  end(): void {
    this.lift()
    this.#controller.dispose()
  }

  #start(): void {
    const { ms, clock = backgroundClock } = this.#options
    this.#cancel = clock.after(ms, () => this.#pass())
  }

  #pass(): void {
    this.#cancel = undefined
    if (this.signal.aborted) return
    this.#isPast = true
    const { reason = timedOut } = this.#options
    this.abort(reason())
  }
}

/**
 * Runs `action` with a deadline, which ends when `action` does.
 *
 * @throws the error of `action`
 */
export async function withDeadline<T>(
  options: DeadlineOptions,
  action: (signal: AbortSignal, deadline: Deadline) => Promise<T>,
): Promise<T> {
  const deadline = new Deadline(options)
  try {
    return await action(deadline.signal, deadline)
  } finally {
    deadline.end()
  }
}

/**
 * Waits for `promise` until the deadline. The promise itself goes on.
 *
 * @throws the error of `promise`, or the reason of the deadline
 */
export function within<T>(promise: Promise<T>, options: DeadlineOptions): Promise<T> {
  return withDeadline(options, (signal) => abortable(promise, signal))
}

function timedOut(): DOMException {
  return new DOMException('The operation was aborted due to timeout', 'TimeoutError')
}

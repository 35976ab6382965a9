import { backgroundClock, type Clock } from './clock.ts'
import { abortable, linkedController } from './signals.ts'

export interface DeadlineOptions {
  readonly ms: number
  /** without one: the system's, which does not keep the process from ending */
  readonly clock?: Clock
  /** whatever else ends it, with its own reason */
  readonly signals?: readonly (AbortSignal | undefined)[]
  /** what it aborts with once the time is over; without one: a TimeoutError, as of AbortSignal.timeout */
  readonly reason?: () => unknown
}

/** A signal that aborts after `ms`, or with other signals before. Whoever makes one ends it, which leaves nothing behind. */
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

  /** It aborted because the time was over, and for no other reason. */
  get isPast(): boolean {
    return this.#isPast
  }

  /** Aborts before the time is over, unless it has. */
  abort(reason?: unknown): void {
    this.end()
    this.#controller.abort(reason)
  }

  /** The time begins anew, unless it is over or the deadline has ended. */
  restart(): void {
    if (!this.#cancel) return
    this.#cancel()
    this.#start()
  }

  /** There is no limit any more: it aborts with the other signals alone. */
  lift(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** It does not abort any more, unless `abort` is called. */
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

/** Runs `action` with a deadline, which ends when `action` does. @throws what `action` throws */
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
 * Waits for `promise`, which itself goes on, no longer than to the deadline.
 *
 * @throws what it rejects with, or why the deadline ended
 */
export function within<T>(promise: Promise<T>, options: DeadlineOptions): Promise<T> {
  return withDeadline(options, (signal) => abortable(promise, signal))
}

function timedOut(): DOMException {
  return new DOMException('The operation was aborted due to timeout', 'TimeoutError')
}

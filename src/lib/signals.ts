/** Waits with an end: every wait of this project takes a signal and throws its reason. */

/** Settles as `promise` does, or rejects with the signal's reason once it aborts. Leaves no listener behind. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    promise.catch(() => undefined) // no code waits for it: its failure must not end the process
    throw signal.reason
  }
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Resolves after `ms`, or rejects with the signal's reason; leaves neither timer nor listener behind. */
export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const onAbort = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/** An AbortController that also aborts with any of `signals`; `dispose` detaches it from them. */
export function linkedController(...signals: (AbortSignal | undefined)[]): AbortController & { dispose(): void } {
  const controller = new AbortController()
  const detach: (() => void)[] = []
  for (const signal of signals) {
    if (!signal) continue
    if (signal.aborted) controller.abort(signal.reason)
    const onAbort = () => controller.abort(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    detach.push(() => signal.removeEventListener('abort', onAbort))
  }
  return Object.assign(controller, { dispose: () => detach.forEach((undo) => void undo()) })
}

/**
 * Cancels one piece of work, with one listener. It is cheaper than an AbortController, which is a part of what a call
 * costs.
 */
export class Cancellation {
  #isCancelled = false
  #listener: (() => void) | undefined

  get isCancelled(): boolean {
    return this.#isCancelled
  }

  /** Sets the one listener, and calls it at once if the work is cancelled already. undefined: no listener. */
  onCancel(listener: (() => void) | undefined): void {
    if (this.#isCancelled) listener?.()
    else this.#listener = listener
  }

  cancel(): void {
    if (this.#isCancelled) return
    this.#isCancelled = true
    this.#listener?.()
    this.#listener = undefined
  }
}

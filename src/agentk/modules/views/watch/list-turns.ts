/** Lists take turns, first come, first served: a few at once. */
export class ListTurns {
  #free: number
  readonly #waiting = new Set<() => void>()

  /** @param atOnce - lists */
  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /**
   * Resolves when a list may begin, with what is called when it has ended.
   *
   * @throws the signal's reason
   */
  readonly take = async (signal: AbortSignal): Promise<() => void> => {
    signal.throwIfAborted()
    if (this.#free > 0) this.#free -= 1
    else await this.#wait(signal)
    let isOver = false
    return () => {
      if (!isOver) this.#end()
      isOver = true
    }
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = () => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      const onAbort = () => {
        this.#waiting.delete(begin)
        reject(signal.reason)
      }
      this.#waiting.add(begin)
      signal.addEventListener('abort', onAbort, { once: true })
    })
  }

  #end(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#free += 1
      return
    }
    this.#waiting.delete(next)
    next()
  }
}

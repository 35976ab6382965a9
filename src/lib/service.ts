/**
 * A part with a life: `start` resolves when it is usable; `stop` may be called twice, lets running work end
 * until `patience` aborts, then cuts, and leaves nothing running. Without `patience` there is none: no grace is kept,
 * and what runs is cut at once.
 */
export interface Service {
  start(): Promise<void>
  /**
   * The first step of `stop`, for what must be announced while everything still works: resolves when no new work
   * comes any more, or `patience` aborts. All parts of a program leave at the same time; then they stop one by one.
   */
  leave?(patience?: AbortSignal): Promise<void>
  stop(patience?: AbortSignal): Promise<void>
}

/**
 * Starts services in order. To stop, lets all that started leave at once, then stops them in reverse, also after a
 * half-failed start. A failure to stop one does not keep the others from being stopped; the first is thrown at the end.
 */
export class Stages implements Service {
  readonly #services: readonly Service[]
  readonly #started: Service[] = []

  constructor(services: readonly Service[]) {
    this.#services = services
  }

  async start(): Promise<void> {
    for (const service of this.#services) {
      this.#started.push(service)
      try {
        await service.start()
      } catch (error) {
        await this.stop(AbortSignal.abort()).catch(() => undefined) // the start's failure is the one to throw
        throw error
      }
    }
  }

  async stop(patience?: AbortSignal): Promise<void> {
    const failures: unknown[] = []
    const failed = (error: unknown) => void failures.push(error)
    const leaving = this.#started.toReversed().map((service) => service.leave?.(patience).catch(failed))
    await Promise.all(leaving)
    for (let service = this.#started.pop(); service; service = this.#started.pop()) {
      await service.stop(patience).catch(failed)
    }
    if (failures.length > 0) throw failures[0]
  }
}

/**
 * A part with a life. `start` resolves once it is usable. `stop` lets running work end until `patience` aborts, then
 * cuts it, and leaves nothing running. It may be called twice. Without `patience` it keeps no grace, and cuts running
 * work at once.
 */
export interface Service {
  start(): Promise<void>
  /**
   * The first step of `stop`, for announcements that need everything to work. Resolves once no new work comes, or once
   * `patience` aborts. All parts of a program leave at the same time; then they stop one by one.
   */
  leave?(patience?: AbortSignal): Promise<void>
  stop(patience?: AbortSignal): Promise<void>
}

/**
 * Starts services in order. To stop, lets all started services leave at once, then stops them in reverse order, also
 * after a start that failed midway. A failure to stop one service does not prevent the stop of the others; the first
 * one is thrown at the end.
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
        await this.stop(AbortSignal.abort()).catch(() => undefined) // the failure of the start is thrown instead
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

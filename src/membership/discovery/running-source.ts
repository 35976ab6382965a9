import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import { KnownAddresses } from './known-addresses.ts'
import type { Random } from './retry.ts'
import type { Discovered, DiscoverySource } from './source.ts'

export interface SourceComponents {
  readonly log: Logger
  readonly clock: Clock
  readonly random: Random
}

/** A source that asks from its start until it is stopped. */
export abstract class RunningSource implements DiscoverySource {
  abstract readonly name: string
  protected readonly known: KnownAddresses
  readonly #stop = new AbortController()
  #running: Promise<void> | undefined

  constructor({ log }: SourceComponents) {
    this.known = new KnownAddresses({ log })
  }

  /**
   * Asks repeatedly until `signal` aborts; does not reject.
   *
   * @param asked - to be called after the first answer, or the first failure
   */
  protected abstract run(asked: () => void, signal: AbortSignal): Promise<void>

  current(): Discovered {
    return this.known.current()
  }

  onChange(listener: () => void): () => void {
    return this.known.onChange(listener)
  }

  /** Resolves after the first answer or the first failure. */
  async start(): Promise<void> {
    const first = Promise.withResolvers<void>()
    this.#running ??= this.run(first.resolve, this.#stop.signal)
    await Promise.race([first.promise, this.#running])
  }

  async stop(): Promise<void> {
    this.known.forgetListeners()
    this.#stop.abort()
    await this.#running
  }
}

import { KasError } from '../lib/errors.ts'
import type { Logger } from '../lib/log.ts'
import type { MembershipMetrics } from './metrics.ts'
import type { DialResult } from './reconciler.ts'
import type { InstanceId } from './row.ts'

/** What an operator should know of the other replicas, said once each time that it begins. */
export class MembershipWarnings {
  readonly #log: Logger
  readonly #metrics: MembershipMetrics
  readonly #names = new Set<string>()
  readonly #addresses = new Set<string>()

  constructor(components: { log: Logger; metrics: MembershipMetrics }) {
    this.#log = components.log
    this.#metrics = components.metrics
  }

  sourcesSilent(sources: readonly string[]): void {
    this.#log.warn({ sources }, 'Discovery has not answered: serving with the replicas that are known')
  }

  sourceFailed(source: string, error: unknown): void {
    this.#log.error({ error, source }, 'A discovery source cannot be used')
  }

  /** @param listed - other addresses are forgotten */
  listed(listed: ReadonlySet<string>): void {
    for (const address of this.#addresses) if (!listed.has(address)) this.#addresses.delete(address)
  }

  dialled(address: string, result: DialResult): void {
    if (result.kind !== 'failed') this.#addresses.delete(address)
    else if (!this.#addresses.has(address)) {
      this.#addresses.add(address)
      const { error } = result
      this.#log.warn({ net_address: address, error }, 'No replica with our secret answers at a listed address')
    }
  }

  pullFailed(instance: InstanceId, error: unknown): void {
    if (KasError.from(error).code === 'INVALID_MESSAGE') this.#metrics.refused('row')
    this.#log.debug({ instance, error }, 'The row of a replica could not be fetched')
  }

  twins(twins: readonly { readonly name: string; readonly instances: number }[]): void {
    for (const name of this.#names) if (!twins.some((twin) => twin.name === name)) this.#names.delete(name)
    for (const { name, instances } of twins) {
      if (this.#names.has(name)) continue
      this.#names.add(name)
      this.#log.warn({ name, instances }, 'Two living replicas use one name: the newest connection counts')
    }
  }
}

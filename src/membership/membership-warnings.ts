import { KasError } from '../lib/errors.ts'
import { formatHostPort, isLoopbackHost } from '../lib/host-port.ts'
import type { Logger } from '../lib/log.ts'
import type { MembershipMetrics } from './metrics.ts'
import type { DialResult } from './reconciler.ts'
import type { InstanceId, RowHead } from './row.ts'

const loopbackText =
  'Other replicas cannot hand calls to this one: its private API listens on loopback. Set private_api.listen.address, for instance to ":8155"'

/** dials in a row: one that starts, or is busy, may miss the first */
const failuresUntilTold = 3

/** What an operator should know of the other replicas, said once each time that it begins. */
export class MembershipWarnings {
  readonly #log: Logger
  readonly #metrics: MembershipMetrics
  readonly #names = new Set<string>()
  /** listed addresses that do not answer: how often in a row */
  readonly #failures = new Map<string, number>()
  #loopbackTold = false

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
  listed(listed: readonly string[]): void {
    for (const address of this.#failures.keys()) if (!listed.includes(address)) this.#failures.delete(address)
  }

  /** @param other - host of another replica; undefined: not known */
  reachedFrom(other: string | undefined, { replicaHost: host, replicaPort: port }: RowHead): void {
    if (this.#loopbackTold || host === undefined || !isLoopbackHost(host)) return
    if (other === undefined || isLoopbackHost(other)) return
    this.#loopbackTold = true
    this.#log.warn({ net_address: formatHostPort({ host, port }) }, loopbackText)
  }

  dialled(address: string, result: DialResult): void {
    if (result.kind !== 'failed') {
      this.#failures.delete(address)
      return
    }
    const failures = (this.#failures.get(address) ?? 0) + 1
    this.#failures.set(address, failures)
    if (failures !== failuresUntilTold) return
    const { error } = result
    this.#log.warn({ net_address: address, error }, 'No replica with our secret answers at a listed address')
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

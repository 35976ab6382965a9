import type { AgentId } from '../call/call.ts'
import type { Clock } from '../lib/clock.ts'
import { Counter } from '../lib/counter.ts'
import { KasError } from '../lib/errors.ts'
import { formatHostPort, isLoopbackHost } from '../lib/host-port.ts'
import type { Logger } from '../lib/log.ts'
import type { MembershipMetrics } from './protocol/observer.ts'
import type { DialResult } from './protocol/reconciler.ts'
import type { PublishLimit } from './table/agent-share.ts'
import { bounds, type InstanceId, type RowHead } from './table/row.ts'

const loopbackText =
  'Other replicas cannot hand calls to this one: its private API listens on loopback. Set private_api.listen.address, for instance to ":8155"'

/** failed dials in a row: a replica that starts, or is busy, may miss the first */
const failuresUntilWarning = 3

/** Time after which an agent with a limited row is logged again. ms */
const limitedAgainMs = 600_000
/** Bound of agents that are logged within that time: the counter includes the others. */
const maxLimitedNamed = 100

const limitTexts: Record<PublishLimit, string> = {
  share: `An agent has more here than its share of the row, ${bounds.itemsOfAgent} connections or ${bounds.agentBytes / 1024} KiB: the rest serves calls that come in here alone`,
  row: 'Agents have more here than the row takes in all: what this one has beyond that serves calls that come in here alone',
  rate: 'The connections of an agent change often: other replicas learn of them some seconds late',
}

/** Logs facts about peers that an operator should know, once each time that they begin. */
export class MembershipWarnings {
  readonly #log: Logger
  readonly #metrics: MembershipMetrics
  readonly #clock: Clock
  readonly #limited = new Set<string>()
  #limitedSince = Number.NEGATIVE_INFINITY
  readonly #names = new Set<string>()
  /** failures in a row, by listed address */
  readonly #failures = new Counter<string>()
  #warnedOfLoopback = false

  constructor(components: { log: Logger; metrics: MembershipMetrics; clock: Clock }) {
    this.#log = components.log
    this.#clock = components.clock
    this.#metrics = components.metrics
  }

  sourcesUnanswered(sources: readonly string[]): void {
    this.#log.warn({ sources }, 'Discovery has not answered: serving with the replicas that are known')
  }

  sourceFailed(source: string, error: unknown): void {
    this.#log.error({ error, source }, 'A discovery source cannot be used')
  }

  /** @param listed - other addresses are dropped */
  listed(listed: readonly string[]): void {
    for (const address of [...this.#failures.counts.keys()])
      if (!listed.includes(address)) this.#failures.delete(address)
  }

  /** @param peer - its host; undefined: unknown */
  reachedFrom(peer: string | undefined, { replicaHost: host, replicaPort: port }: RowHead): void {
    if (this.#warnedOfLoopback || host === undefined || !isLoopbackHost(host)) return
    if (peer === undefined || isLoopbackHost(peer)) return
    this.#warnedOfLoopback = true
    this.#log.warn({ net_address: formatHostPort({ host, port }) }, loopbackText)
  }

  dialled(address: string, result: DialResult): void {
    if (result.kind !== 'failed') {
      this.#failures.delete(address)
      return
    }
    if (this.#failures.add(address) !== failuresUntilWarning) return
    const { error } = result
    this.#log.warn({ net_address: address, error }, 'No replica with our secret answers at a listed address')
  }

  pullFailed(instance: InstanceId, error: unknown): void {
    if (KasError.from(error).code === 'INVALID_MESSAGE') this.#metrics.refused('row')
    this.#log.debug({ instance, error }, 'The row of a replica could not be fetched')
  }

  /** Logs a fault of this program, and not of a replica. */
  listenerFailed(error: unknown): void {
    this.#log.error({ error }, 'What follows from a change of the replicas or of their agents has failed here')
  }

  publishLimited(agentId: AgentId, limit: PublishLimit): void {
    this.#metrics.publishLimited(limit)
    const now = this.#clock.now()
    if (now - this.#limitedSince >= limitedAgainMs) {
      this.#limited.clear()
      this.#limitedSince = now
    }
    const key = `${limit} ${agentId}`
    if (this.#limited.has(key) || this.#limited.size >= maxLimitedNamed) return
    this.#limited.add(key)
    this.#log[limit === 'rate' ? 'info' : 'warn']({ agent_id: String(agentId) }, limitTexts[limit])
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

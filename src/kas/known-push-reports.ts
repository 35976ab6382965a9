import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import type { Service } from '../lib/service.ts'
import type { InstanceId } from '../membership/membership.ts'
import type { KnownPush, RecentPushes } from './modules/flux/recent-pushes.ts'

export interface KnownPushReportsComponents {
  readonly pushes: Pick<RecentPushes, 'known'>
  readonly replicas: { onReached(listener: (instance: InstanceId) => void): void }
  /** @throws KasError if the replica has not acknowledged them */
  readonly tell: (instance: InstanceId, pushes: readonly KnownPush[]) => Promise<void>
  readonly clock: Clock
  readonly log: Logger
}

/** A replica that has just come may not know this one yet, and refuses it at first. */
const maxTries = 5
const retryMs = 1000
/** pushes in one telling */
const maxPushesAtOnce = 1000

/** Tells each replica that comes into reach of the pushes that there were; of later ones it hears as all others do. */
export class KnownPushReports implements Service {
  readonly #components: KnownPushReportsComponents
  readonly #retries = new Set<() => void>()
  #isStopped = false

  constructor(components: KnownPushReportsComponents) {
    this.#components = components
    components.replicas.onReached((instance) => void this.#tell(instance, 1))
  }

  async start(): Promise<void> {}

  async stop(): Promise<void> {
    this.#isStopped = true
    for (const cancel of this.#retries) cancel()
  }

  async #tell(instance: InstanceId, tries: number): Promise<void> {
    const { pushes, tell, log } = this.#components
    const known = pushes.known()
    try {
      for (let from = 0; from < known.length; from += maxPushesAtOnce) {
        await tell(instance, known.slice(from, from + maxPushesAtOnce))
      }
    } catch (error) {
      if (tries < maxTries) this.#tellLater(instance, tries + 1)
      else log.debug({ error, instance }, 'A replica could not be told which pushes there were')
    }
  }

  #tellLater(instance: InstanceId, tries: number): void {
    if (this.#isStopped) return
    const cancel = this.#components.clock.after(retryMs, () => {
      this.#retries.delete(cancel)
      void this.#tell(instance, tries)
    })
    this.#retries.add(cancel)
  }
}

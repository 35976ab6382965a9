import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { InstanceId } from '../../membership/membership.ts'
import { isUsable, type Link } from './link.ts'

/** Outages shorter than this are not logged: the row of a peer that restarts or is killed is removed by then. ms */
const patienceMs = 5000

/** The link to a peer that serves. */
export interface WatchedLink {
  readonly instance: InstanceId
  readonly name: string
  readonly address: string
  readonly link: Pick<Link, 'reach' | 'failure'>
}

/** State of a link that cannot be used. */
interface Outage {
  isLogged: boolean
  readonly cancel: () => void
}

/**
 * Logs once per outage that calls cannot be handed to a peer although gossip knows it, and once that they can again.
 */
export class LinkWarnings {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #outages = new Map<InstanceId, Outage>()

  constructor(components: { clock: Clock; log: Logger }) {
    this.#clock = components.clock
    this.#log = components.log
  }

  /** Compares the links that should work with the outages; must be called after each change. */
  check(links: readonly WatchedLink[]): void {
    for (const instance of [...this.#outages.keys()]) {
      if (!links.some((one) => one.instance === instance)) this.#end(instance)
    }
    for (const watched of links) {
      const { instance, name, address, link } = watched
      if (!isUsable(link.reach)) this.#begin(watched)
      else if (this.#end(instance)?.isLogged) {
        this.#log.info({ name, net_address: address }, 'Calls can be handed to the replica again')
      }
    }
  }

  stop(): void {
    for (const instance of [...this.#outages.keys()]) this.#end(instance)
  }

  #begin({ instance, name, address, link }: WatchedLink): void {
    if (this.#outages.has(instance)) return
    const cancel = this.#clock.after(patienceMs, () => {
      outage.isLogged = true
      const { reach, failure: error } = link
      this.#log.warn(
        { name, net_address: address, reach, error },
        'Calls cannot be handed to a replica: its private API does not answer',
      )
    })
    const outage: Outage = { isLogged: false, cancel }
    this.#outages.set(instance, outage)
  }

  #end(instance: InstanceId): Outage | undefined {
    const outage = this.#outages.get(instance)
    outage?.cancel()
    this.#outages.delete(instance)
    return outage
  }
}

import { create } from '@bufbuild/protobuf'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { InstanceId, Membership, UnansweredAddress } from '../../membership/membership.ts'
import { Links as LinksService, ListLinksResponseSchema } from '../../proto/gen/replica_links_pb.ts'
import { type UnaryMethods, unaryService } from '../../proto/unary.ts'
import { type Reach, reaches } from './link.ts'
import type { Links } from './links.ts'
import type { Peers } from './peers.ts'

/** State of the connections from a replica to one of its peers. */
export interface LinkReport {
  readonly name: string
  readonly instance: string
  /** address of the peer's server `replicas`; absent: unknown */
  readonly address?: string
  /** state of the link for calls, on 8155 */
  readonly reach: Reach
  /** a connection for gossip is open between the two, on 8156 */
  readonly gossip: boolean
}

export interface ReplicaLinksReport {
  readonly name: string
  readonly instance: string
  readonly links: readonly LinkReport[]
  /** addresses that nobody answered on 8156 */
  readonly unanswered: readonly UnansweredAddress[]
  /** Bounds of how far its clock is ahead of the asked replica's. Absent: it is the asked one. ms */
  readonly ahead?: readonly [least: number, most: number]
}

/** Reports of all replicas, the asked one first. */
export interface LinksReport {
  readonly replicas: readonly ReplicaLinksReport[]
  /** replicas that did not answer, and the error */
  readonly silent: readonly { readonly name: string; readonly reason: string }[]
  /** discovery sources that fail at the asked replica */
  readonly failingSources: readonly { readonly name: string; readonly reason: string }[]
}

export interface ReplicaLinksComponents {
  readonly membership: Pick<Membership, 'name' | 'instance' | 'members' | 'unanswered' | 'failingSources'>
  readonly links: Pick<Links, 'link'>
  readonly peers: Pick<Peers, 'all' | 'call'>
  /** clock since 1970 */
  readonly clock: Clock
}

/** Reports which replicas reach which, for `kas doctor`: each replica reports its own links. */
export class ReplicaLinks {
  readonly #components: ReplicaLinksComponents

  constructor(components: ReplicaLinksComponents) {
    this.#components = components
  }

  /** Methods that peers call. */
  get replicaMethods(): UnaryMethods {
    return unaryService(LinksService, {
      list: async () => {
        const { clock, membership } = this.#components
        const nowMs = BigInt(Math.round(clock.now()))
        return create(ListLinksResponseSchema, { nowMs, link: this.#links(), unanswered: [...membership.unanswered()] })
      },
    })
  }

  async report(): Promise<LinksReport> {
    const { membership, peers } = this.#components
    const { name, instance } = membership
    const failed: { name: string; reason: string }[] = []
    const asked = peers.all().map(async (peer): Promise<ReplicaLinksReport[]> => {
      try {
        return [{ name: peer.name, instance: peer.instance, ...(await this.#ask(peer.instance)) }]
      } catch (error) {
        failed.push({ name: peer.name, reason: KasError.from(error).message })
        return []
      }
    })
    const others = (await Promise.all(asked)).flat()
    const own = { name, instance, links: this.#links(), unanswered: membership.unanswered() }
    return { replicas: [own, ...others], silent: failed, failingSources: membership.failingSources() }
  }

  async #ask(instance: InstanceId): Promise<Omit<ReplicaLinksReport, 'name' | 'instance'>> {
    const { peers, clock } = this.#components
    const sentAt = clock.now()
    const { nowMs, link, unanswered } = await peers.call(instance, LinksService.method.list, {})
    const now = Number(nowMs)
    return {
      links: link.map(({ name, instance, address, reach, gossip }) => {
        const known = reaches.find((each) => each === reach) ?? 'down' // a later release may report other states
        return { name, instance, ...(address === '' ? {} : { address }), reach: known, gossip }
      }),
      unanswered: unanswered.map(({ address, dials, reason }) => ({ address, dials, reason })),
      ahead: [now - clock.now(), now - sentAt],
    }
  }

  #links(): LinkReport[] {
    const { membership, links } = this.#components
    const others = membership.members().filter(({ self }) => !self)
    return others.map(({ name, instance, address, connected: gossip }) => {
      const reach = links.link(instance)?.reach ?? 'down'
      return { name, instance, ...(address === undefined ? {} : { address }), reach, gossip }
    })
  }
}

import type { AgentId } from '../../call/call.ts'
import type { Membership } from '../../membership/membership.ts'
import { homeOf } from '../../ring/home.ts'

/** A replica, as agents can reach it. */
export interface Place {
  readonly name: string
  /** address at which agents reach this replica alone; absent: there is none */
  readonly address?: string
}

/** Replicas to which the connections of a pod should go. */
export interface Placed {
  readonly home: Place
  readonly standby?: Place
}

/** Decides to which replicas agents' pods should connect (doc/internals/agentk-placement.md). */
export interface Placement {
  /** name of this replica */
  readonly here: string
  /** at least one peer accepts agents */
  readonly peersServe: boolean
  /** @returns undefined: no replica serves */
  homeOf(agentId: AgentId, pod: string): Placed | undefined
  /** Calls `listener` with the agents whose placement may have changed, until the returned function is called. */
  onChange(listener: (agentIds: ReadonlySet<AgentId> | 'all') => void): () => void
}

export interface MemberPlacementComponents {
  readonly membership: Pick<
    Membership,
    'name' | 'rank' | 'holders' | 'members' | 'row' | 'onChange' | 'ownPods' | 'onOwnPods'
  >
}

/** Agents whose sorted pods are cached; the cache is cleared when there are more. */
const maxSorted = 100

/** Placement by the ring of serving replicas and the agent's pods in the table: the same at every replica. */
export class MemberPlacement implements Placement {
  readonly here: string
  readonly #components: MemberPlacementComponents
  /** cached because an agent may have thousands of pods, and each of their connections asks after each change */
  readonly #sorted = new Map<AgentId, readonly string[]>()
  readonly #places = new Map<string, Place>()

  constructor(components: MemberPlacementComponents) {
    this.here = components.membership.name
    this.#components = components
    this.onChange((agentIds) => {
      if (agentIds === 'all') this.#places.clear()
      else for (const agentId of agentIds) this.#sorted.delete(agentId)
    })
  }

  get peersServe(): boolean {
    const members = this.#components.membership.members()
    return members.some(({ self, connected, state }) => !self && connected && state === 'serving')
  }

  homeOf(agentId: AgentId, pod: string): Placed | undefined {
    const found = homeOf(this.#components.membership.rank(String(agentId)), this.#podsOf(agentId), pod)
    if (!found) return undefined
    const { home, standby } = found
    return { home: this.#place(home), ...(standby === undefined ? {} : { standby: this.#place(standby) }) }
  }

  onChange(listener: (agentIds: ReadonlySet<AgentId> | 'all') => void): () => void {
    const { membership } = this.#components
    const undo = [
      membership.onChange((change) => {
        if (change.kind === 'members') listener('all')
        else if (change.kind === 'connections') listener(change.agentIds)
      }),
      membership.onOwnPods((agentId) => listener(new Set([agentId]))),
    ]
    return () => {
      for (const each of undo) each()
    }
  }

  #podsOf(agentId: AgentId): readonly string[] {
    const known = this.#sorted.get(agentId)
    if (known) return known
    const { membership } = this.#components
    const pods = new Set(membership.ownPods(agentId))
    for (const { connections } of membership.holders(agentId)) for (const { pod } of connections) pods.add(pod)
    pods.delete('')
    const sorted = [...pods].sort()
    if (this.#sorted.size >= maxSorted) this.#sorted.clear()
    this.#sorted.set(agentId, sorted)
    return sorted
  }

  #place(name: string): Place {
    const known = this.#places.get(name)
    if (known) return known
    const { membership } = this.#components
    const member = membership.members().find((each) => each.name === name)
    const address = member && membership.row(member.instance)?.head.agentAddress
    const place = address === undefined ? { name } : { name, address }
    this.#places.set(name, place)
    return place
  }
}

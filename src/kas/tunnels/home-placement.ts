import type { AgentId } from '../../call/call.ts'
import type { Membership } from '../../membership/membership.ts'
import { homeOf } from '../../ring/home.ts'

/** A replica as an agent may reach it. */
export interface Place {
  readonly name: string
  /** where agents reach this replica alone, if they can */
  readonly address?: string
}

/** Where the connections of a pod should be. */
export interface Placed {
  readonly home: Place
  readonly standby?: Place
}

/** Says where agents' pods should connect (doc/agentk-placement.md). */
export interface Placement {
  /** name of this replica */
  readonly here: string
  /** a peer takes agents */
  readonly peersServe: boolean
  /** undefined while no replica serves */
  homeOf(agentId: AgentId, pod: string): Placed | undefined
  /** Calls `listener` with those whose answer may have changed, until the returned function is called. */
  onChange(listener: (agentIds: ReadonlySet<AgentId> | 'all') => void): () => void
}

export interface MemberPlacementComponents {
  readonly membership: Pick<
    Membership,
    'name' | 'rank' | 'holders' | 'members' | 'row' | 'onChange' | 'ownPods' | 'onOwnPods'
  >
}

/** Agents whose pods are kept sorted; all are dropped when there are more. */
const maxSorted = 100

/** By the ring of the serving replicas and the pods of the agent that the table names: the same at every replica. */
export class MemberPlacement implements Placement {
  readonly here: string
  readonly #components: MemberPlacementComponents
  /** an agent may have thousands of pods, and each of their connections asks after each change */
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

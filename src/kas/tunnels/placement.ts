import type { Membership, MembershipChange } from '../../membership/membership.ts'
import type { AgentId } from '../../proto/call.ts'
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

/** Says where agents' pods should connect (design 7). */
export interface Placement {
  /** name of this replica */
  readonly here: string
  /** another replica takes agents */
  readonly othersServe: boolean
  /** undefined while no replica serves */
  homeOf(agentId: AgentId, pod: string): Placed | undefined
  /** Calls `listener` with those whose answer may have changed, until the returned function is called. */
  onChange(listener: (agentIds: ReadonlySet<AgentId> | 'all') => void): () => void
}

export interface MemberPlacementComponents {
  readonly membership: Pick<Membership, 'name' | 'rank' | 'holders' | 'members' | 'row' | 'onChange'>
  /** what this replica holds itself */
  readonly held: {
    podsOf(agentId: AgentId): Iterable<string>
    onChange(listener: (agentId: AgentId) => void): () => void
  }
}

/** By the ring of the serving replicas and the pods of the agent that the table names: the same at every replica. */
export class MemberPlacement implements Placement {
  readonly here: string
  readonly #components: MemberPlacementComponents

  constructor(components: MemberPlacementComponents) {
    this.here = components.membership.name
    this.#components = components
  }

  get othersServe(): boolean {
    const members = this.#components.membership.members()
    return members.some(({ self, connected, state }) => !self && connected && state === 'serving')
  }

  homeOf(agentId: AgentId, pod: string): Placed | undefined {
    const { membership, held } = this.#components
    const pods = new Set(held.podsOf(agentId))
    for (const { connections } of membership.holders(agentId)) {
      for (const { pod: name } of connections) if (name !== '') pods.add(name)
    }
    const found = homeOf(membership.rank(String(agentId)), pods, pod)
    if (!found) return undefined
    const { home, standby } = found
    return { home: this.#place(home), ...(standby === undefined ? {} : { standby: this.#place(standby) }) }
  }

  onChange(listener: (agentIds: ReadonlySet<AgentId> | 'all') => void): () => void {
    const { membership, held } = this.#components
    const undo = [
      membership.onChange(({ agentIds }: MembershipChange) => listener(agentIds === 'members' ? 'all' : agentIds)),
      held.onChange((agentId) => listener(new Set([agentId]))),
    ]
    return () => {
      for (const each of undo) each()
    }
  }

  #place(name: string): Place {
    const { membership } = this.#components
    const member = membership.members().find((each) => each.name === name)
    const address = member && membership.row(member.instance)?.head.agentAddress
    return address === undefined ? { name } : { name, address }
  }
}

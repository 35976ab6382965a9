import type { Membership } from '../membership/membership.ts'
import type { AgentId } from '../proto/call.ts'

export type LeadMembership = Pick<Membership, 'name' | 'rank' | 'holders' | 'onChange'>

/**
 * Which replica does what one should do for all: the first in the ring's order for the agent among those that hold it,
 * for only they have the token with which GitLab says where its repository lies (design 7). There may be two for a
 * moment. Without others this one leads.
 */
export class Leads {
  #membership: LeadMembership | undefined

  /** From now on there may be others; before anything is asked. */
  join(membership: LeadMembership): void {
    this.#membership = membership
  }

  /** Whether this one does, for the agent. */
  leads(agentId: AgentId): boolean {
    const membership = this.#membership
    if (!membership) return true
    const others = new Set(
      membership
        .holders(agentId)
        .filter(isFollowed)
        .map(({ row }) => row.head.name),
    )
    if (others.size === 0) return true
    const first = membership.rank(String(agentId)).find((name) => name === membership.name || others.has(name))
    return first === undefined || first === membership.name // all of them leave: none would
  }

  /** Calls `listener` after that may have changed, until the returned function is called. */
  onChange(agentId: AgentId, listener: () => void): () => void {
    const heard = this.#membership?.onChange(({ agentIds }) => {
      if (agentIds === 'members' || agentIds.has(agentId)) listener()
    })
    return () => heard?.()
  }
}

/** An agent has its configuration stream where it is at home; a connection that it leaves serves no method any more. */
function isFollowed({ connections }: ReturnType<LeadMembership['holders']>[number]): boolean {
  return connections.some(({ role, methods }) => role === 'home' && methods.length > 0)
}

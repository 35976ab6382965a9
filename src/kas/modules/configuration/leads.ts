import type { Membership } from '../../../membership/membership.ts'
import type { AgentId } from '../../../proto/call.ts'

/** Which replica does what one should do for all: there may be two for a moment. */
export interface Leads {
  /** This one, for the agent. */
  leads(agentId: AgentId): boolean
  /** Calls `listener` after that may have changed, until the returned function is called. */
  onChange(agentId: AgentId, listener: () => void): () => void
}

/** A replica that is alone. */
export const alwaysLeads: Leads = { leads: () => true, onChange: () => () => undefined }

export interface AgentLeadsComponents {
  readonly membership: Pick<Membership, 'name' | 'rank' | 'holders' | 'onChange'>
}

/**
 * The first in the ring's order for the agent among the replicas that hold it: only they have the token with which
 * GitLab says where its repository lies (design 7).
 */
export class AgentLeads implements Leads {
  readonly #components: AgentLeadsComponents

  constructor(components: AgentLeadsComponents) {
    this.#components = components
  }

  leads(agentId: AgentId): boolean {
    const { membership } = this.#components
    const others = new Set(membership.holders(agentId).map(({ row }) => row.head.name))
    if (others.size === 0) return true
    const first = membership.rank(String(agentId)).find((name) => name === membership.name || others.has(name))
    return first === membership.name
  }

  onChange(agentId: AgentId, listener: () => void): () => void {
    return this.#components.membership.onChange(({ agentIds }) => {
      if (agentIds === 'members' || agentIds.has(agentId)) listener()
    })
  }
}

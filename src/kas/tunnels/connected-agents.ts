import type { AgentId } from '../../call/call.ts'
import type { Membership } from '../../membership/membership.ts'
import type { TunnelRegistry } from './tunnel-registry.ts'

export interface ConnectedAgentsComponents {
  readonly tunnels: Pick<TunnelRegistry, 'holds'>
  /** undefined: this replica is alone */
  readonly membership: Pick<Membership, 'rows'> | undefined
  /** name of this replica */
  readonly name: string
}

/** A replica to which an agent is connected. */
export interface ConnectedTo {
  readonly replica: string
  /** when the oldest of its connections was made, in ms since 1970; absent: unknown */
  readonly since?: number
}

/**
 * @returns the replicas of each agent that is connected. Passes over each row once: there may be thousands of agents.
 */
export function connectedAgents(
  { tunnels, membership, name }: ConnectedAgentsComponents,
  ids: ReadonlySet<AgentId>,
): ReadonlyMap<AgentId, readonly ConnectedTo[]> {
  if (!membership) return new Map([...ids].filter((id) => tunnels.holds(id)).map((id) => [id, [{ replica: name }]]))
  const found = new Map<AgentId, ConnectedTo[]>()
  for (const { head, connections } of membership.rows()) {
    const since = new Map<AgentId, number>()
    for (const { agentId, connectedAt } of connections.values()) {
      if (ids.has(agentId)) since.set(agentId, Math.min(connectedAt, since.get(agentId) ?? connectedAt))
    }
    for (const [agentId, at] of since) {
      const known = found.get(agentId) ?? []
      found.set(agentId, [...known, { replica: head.name, since: at }])
    }
  }
  return found
}

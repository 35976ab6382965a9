import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { AgentId } from '../../../proto/call.ts'
import type { Agent } from '../../directory/directory.ts'

/** A pod of an agent that registered with this replica. */
export interface ConnectedAgent {
  readonly agentId: AgentId
  readonly projectId: bigint
  /** the pod's `pod_id` */
  readonly connectionId: bigint
  /** in ms since 1970; a renewed registration keeps it */
  readonly connectedAt: number
  /** AgentMeta as the pod sent it, unknown fields included */
  readonly meta: Uint8Array
}

export interface ConnectedAgentsOptions {
  /** a registration that is not renewed goes after this time, in ms: agentk renews every 5 minutes */
  readonly lifeMs?: number
  readonly maxMetaBytes?: number
  readonly maxPodsPerAgent?: number
}

const defaults = { lifeMs: 330_000, maxMetaBytes: 4096, maxPodsPerAgent: 1000 }

interface Row extends ConnectedAgent {
  readonly renewedAt: number
}

/** The pods that registered with this replica. */
export class ConnectedAgents {
  readonly #clock: Clock
  readonly #options: Required<ConnectedAgentsOptions>
  /** by agent, then by connection; the longest not renewed first */
  readonly #rows = new Map<AgentId, Map<bigint, Row>>()

  constructor(components: { clock: Clock }, options: ConnectedAgentsOptions = {}) {
    this.#clock = components.clock
    this.#options = { ...defaults, ...options }
  }

  /** @throws KasError INVALID_MESSAGE if the meta is larger than any agent's */
  register(agent: Agent, connectionId: bigint, meta: Uint8Array): void {
    const { maxMetaBytes, maxPodsPerAgent } = this.#options
    if (meta.length > maxMetaBytes) {
      throw new KasError({
        code: 'INVALID_MESSAGE',
        detail: `agent_meta has ${meta.length} bytes, more than ${maxMetaBytes}`,
      })
    }
    const now = this.#clock.now()
    const pods = this.#rows.get(agent.id) ?? new Map<bigint, Row>()
    const connectedAt = pods.get(connectionId)?.connectedAt ?? now
    const row = { agentId: agent.id, projectId: agent.project.id, connectionId, connectedAt, meta, renewedAt: now }
    pods.delete(connectionId)
    pods.set(connectionId, row)
    this.#rows.set(agent.id, pods)
    for (const oldest of pods.keys()) {
      if (pods.size <= maxPodsPerAgent) break
      pods.delete(oldest)
    }
  }

  unregister(agent: Agent, connectionId: bigint): void {
    const pods = this.#rows.get(agent.id)
    pods?.delete(connectionId)
    if (pods?.size === 0) this.#rows.delete(agent.id)
  }

  ofAgents(ids: ReadonlySet<AgentId>): readonly ConnectedAgent[] {
    this.#dropOld()
    return [...ids].flatMap((id) => [...(this.#rows.get(id)?.values() ?? [])])
  }

  ofProjects(ids: ReadonlySet<bigint>): readonly ConnectedAgent[] {
    return this.all().filter(({ projectId }) => ids.has(projectId))
  }

  all(): readonly ConnectedAgent[] {
    this.#dropOld()
    return [...this.#rows.values()].flatMap((pods) => [...pods.values()])
  }

  #dropOld(): void {
    const oldest = this.#clock.now() - this.#options.lifeMs
    for (const [agentId, pods] of this.#rows) {
      for (const [connectionId, { renewedAt }] of pods) {
        if (renewedAt > oldest) break
        pods.delete(connectionId)
      }
      if (pods.size === 0) this.#rows.delete(agentId)
    }
  }
}

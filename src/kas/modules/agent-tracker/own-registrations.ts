import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Agent } from '../../agent.ts'

/** A pod of an agent that registered. */
export interface ConnectedAgent {
  readonly agentId: AgentId
  readonly projectId: bigint
  /** the pod's `pod_id` */
  readonly connectionId: bigint
  /** in ms since 1970; a renewed registration keeps it */
  readonly connectedAt: number
  /** AgentMeta as the pod sent it, unknown fields included */
  readonly meta: Uint8Array
  /** the pod renews it every five minutes; else it ends with the stream that made it */
  readonly renewed: boolean
}

export interface ConnectedAgentsOptions {
  /** a registration that is not renewed goes after this time, in ms: agentk renews every 5 minutes */
  readonly lifeMs?: number
  readonly maxMetaBytes?: number
  /** of the metas of an agent's pods; the longest not renewed make room */
  readonly maxMetaBytesPerAgent?: number
  /** half of what a replica's row takes of an agent: its connections stand there too */
  readonly maxPodsPerAgent?: number
}

/** Hears what becomes of the registrations. */
export interface RegistrationListener {
  /** a pod is here that was not, or is another than it was */
  registered(pod: ConnectedAgent): void
  /** it went, was silent for too long, or made room */
  gone(pod: ConnectedAgent): void
  /** a pod told that it goes, whether it was here or not */
  unregistered(agentId: AgentId, connectionId: bigint): void
}

const defaults = { lifeMs: 330_000, maxMetaBytes: 4096, maxMetaBytesPerAgent: 128 << 10, maxPodsPerAgent: 500 }

interface Row {
  readonly pod: ConnectedAgent
  readonly renewedAt: number
}

/** The pods that registered with this replica. */
export class ConnectedAgents {
  readonly #clock: Clock
  readonly #options: Required<ConnectedAgentsOptions>
  /** by agent, then by connection; the longest not renewed first */
  readonly #rows = new Map<AgentId, Map<bigint, Row>>()
  #listener: RegistrationListener | undefined

  constructor(components: { clock: Clock }, options: ConnectedAgentsOptions = {}) {
    this.#clock = components.clock
    this.#options = { ...defaults, ...options }
  }

  /** There is one at the most. */
  listen(listener: RegistrationListener | undefined): void {
    this.#listener = listener
  }

  /**
   * @param how.renewed - false: it ends with a stream
   * @throws KasError INVALID_MESSAGE if the meta is larger than any agent's
   */
  register(agent: Agent, connectionId: bigint, meta: Uint8Array, how: { renewed: boolean } = { renewed: true }): void {
    const { maxMetaBytes } = this.#options
    if (meta.length > maxMetaBytes) {
      throw new KasError({
        code: 'INVALID_MESSAGE',
        detail: `agent_meta has ${meta.length} bytes, more than ${maxMetaBytes}`,
      })
    }
    const connectedAt = this.#rows.get(agent.id)?.get(connectionId)?.pod.connectedAt ?? this.#clock.now()
    this.put({ agentId: agent.id, projectId: agent.project.id, connectionId, connectedAt, meta, ...how })
  }

  /** A registration that has just been renewed, as it is. */
  put(pod: ConnectedAgent): void {
    const { agentId, connectionId } = pod
    const pods = this.#rows.get(agentId) ?? new Map<bigint, Row>()
    const before = pods.get(connectionId)?.pod
    pods.delete(connectionId)
    let bytes = pod.meta.length
    for (const { pod } of pods.values()) bytes += pod.meta.length
    for (const oldest of pods.values()) {
      if (pods.size < this.#options.maxPodsPerAgent && bytes <= this.#options.maxMetaBytesPerAgent) break
      bytes -= oldest.pod.meta.length
      this.#remove(oldest.pod)
    }
    pods.set(connectionId, { pod, renewedAt: this.#clock.now() })
    this.#rows.set(agentId, pods)
    if (!before || !isSame(before, pod)) this.#listener?.registered(pod)
  }

  unregister(agent: Agent, connectionId: bigint): void {
    this.forget(agent.id, connectionId)
    this.#listener?.unregistered(agent.id, connectionId)
  }

  /** The pod is another replica's now, or gone. */
  forget(agentId: AgentId, connectionId: bigint): void {
    const row = this.#rows.get(agentId)?.get(connectionId)
    if (row) this.#remove(row.pod)
  }

  has(agentId: AgentId, connectionId: bigint): boolean {
    return this.#rows.get(agentId)?.has(connectionId) ?? false
  }

  ofAgents(ids: ReadonlySet<AgentId>): readonly ConnectedAgent[] {
    this.dropOld()
    return [...ids].flatMap((id) => Array.from(this.#rows.get(id)?.values() ?? [], ({ pod }) => pod))
  }

  ofProjects(ids: ReadonlySet<bigint>): readonly ConnectedAgent[] {
    return this.all().filter(({ projectId }) => ids.has(projectId))
  }

  all(): readonly ConnectedAgent[] {
    this.dropOld()
    return [...this.#rows.values()].flatMap((pods) => Array.from(pods.values(), ({ pod }) => pod))
  }

  /** Those that were not renewed in time go: each question does so too. */
  dropOld(): void {
    const oldest = this.#clock.now() - this.#options.lifeMs
    for (const pods of this.#rows.values()) {
      for (const { pod, renewedAt } of pods.values()) {
        if (renewedAt > oldest) break
        this.#remove(pod)
      }
    }
  }

  #remove(pod: ConnectedAgent): void {
    const pods = this.#rows.get(pod.agentId)
    if (!pods?.delete(pod.connectionId)) return
    if (pods.size === 0) this.#rows.delete(pod.agentId)
    this.#listener?.gone(pod)
  }
}

function isSame(one: ConnectedAgent, other: ConnectedAgent): boolean {
  return (
    one.projectId === other.projectId &&
    one.connectedAt === other.connectedAt &&
    one.renewed === other.renewed &&
    Buffer.compare(one.meta, other.meta) === 0
  )
}

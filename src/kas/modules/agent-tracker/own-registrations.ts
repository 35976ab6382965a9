import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Registration } from '../../../membership/membership.ts'
import type { Agent } from '../../agent.ts'

export interface OwnRegistrationsOptions {
  /** a registration that is not renewed expires after this time, in ms: agentk renews every 5 minutes */
  readonly lifeMs?: number
  readonly maxMetaBytes?: number
  /** of the metas of an agent's pods; the longest not renewed make room */
  readonly maxMetaBytesPerAgent?: number
  /** half of what a replica's row takes of an agent: its connections stand there too */
  readonly maxPodsPerAgent?: number
}

/** Is called with what becomes of the registrations. */
export interface RegistrationListener {
  /** it is new here, or has changed */
  registered(registration: Registration): void
  /** it was forgotten, has expired, or made room */
  removed(registration: Registration): void
  /** a pod says that it leaves, whether it is registered here or not */
  unregistered(agentId: AgentId, podId: bigint): void
}

const defaults = { lifeMs: 330_000, maxMetaBytes: 4096, maxMetaBytesPerAgent: 128 << 10, maxPodsPerAgent: 500 }

export interface OwnRegistrationsComponents {
  /** says since when a pod is registered */
  readonly clock: Pick<Clock, 'now'>
  /** says how long ago it was renewed; it is never set */
  readonly monotonic: Pick<Clock, 'now'>
}

interface Renewed {
  readonly registration: Registration
  readonly renewedAt: number
}

/** The pods that registered with this replica. */
export class OwnRegistrations {
  readonly #components: OwnRegistrationsComponents
  readonly #options: Required<OwnRegistrationsOptions>
  /** by agent, then by pod; the longest not renewed first */
  readonly #agents = new Map<AgentId, Map<bigint, Renewed>>()
  #listener: RegistrationListener | undefined

  constructor(components: OwnRegistrationsComponents, options: OwnRegistrationsOptions = {}) {
    this.#components = components
    this.#options = { ...defaults, ...options }
  }

  /** There is one at the most. */
  listen(listener: RegistrationListener | undefined): void {
    this.#listener = listener
  }

  /**
   * A registration that is renewed keeps the time of the first.
   *
   * @param how.renewed - the pod renews it every five minutes; false: it ends with a stream
   * @throws KasError INVALID_MESSAGE if the meta is larger than any agent's
   */
  register(agent: Agent, podId: bigint, meta: Uint8Array, how: { renewed: boolean } = { renewed: true }): void {
    const { maxMetaBytes } = this.#options
    if (meta.length > maxMetaBytes) {
      throw new KasError({
        code: 'INVALID_MESSAGE',
        detail: `agent_meta has ${meta.length} bytes, more than ${maxMetaBytes}`,
      })
    }
    const known = this.#agents.get(agent.id)?.get(podId)?.registration
    const registeredAt = known?.registeredAt ?? this.#components.clock.now()
    this.put({ agentId: agent.id, projectId: agent.project.id, podId, registeredAt, meta, ...how })
  }

  /** A registration that has just been renewed, as it is. */
  put(registration: Registration): void {
    const { agentId, podId } = registration
    const pods = this.#agents.get(agentId) ?? new Map<bigint, Renewed>()
    const before = pods.get(podId)?.registration
    pods.delete(podId)
    let bytes = registration.meta.length
    for (const other of pods.values()) bytes += other.registration.meta.length
    for (const oldest of pods.values()) {
      if (pods.size < this.#options.maxPodsPerAgent && bytes <= this.#options.maxMetaBytesPerAgent) break
      bytes -= oldest.registration.meta.length
      this.#remove(oldest.registration)
    }
    pods.set(podId, { registration, renewedAt: this.#components.monotonic.now() })
    this.#agents.set(agentId, pods)
    if (!before || !isSame(before, registration)) this.#listener?.registered(registration)
  }

  unregister(agent: Agent, podId: bigint): void {
    this.forget(agent.id, podId)
    this.#listener?.unregistered(agent.id, podId)
  }

  /** The pod is registered with another replica now, or has left. */
  forget(agentId: AgentId, podId: bigint): void {
    const known = this.#agents.get(agentId)?.get(podId)
    if (known) this.#remove(known.registration)
  }

  has(agentId: AgentId, podId: bigint): boolean {
    return this.#agents.get(agentId)?.has(podId) ?? false
  }

  ofAgents(ids: ReadonlySet<AgentId>): readonly Registration[] {
    this.expire()
    return [...ids].flatMap((id) => registrationsOf(this.#agents.get(id)))
  }

  ofProjects(ids: ReadonlySet<bigint>): readonly Registration[] {
    return this.all().filter(({ projectId }) => ids.has(projectId))
  }

  all(): readonly Registration[] {
    this.expire()
    return [...this.#agents.values()].flatMap(registrationsOf)
  }

  /** Removes those that were not renewed in time; each query does so too. */
  expire(): void {
    const oldest = this.#components.monotonic.now() - this.#options.lifeMs
    for (const pods of this.#agents.values()) {
      for (const { registration, renewedAt } of pods.values()) {
        if (renewedAt > oldest) break
        this.#remove(registration)
      }
    }
  }

  #remove(registration: Registration): void {
    const { agentId, podId } = registration
    const pods = this.#agents.get(agentId)
    if (!pods?.delete(podId)) return
    if (pods.size === 0) this.#agents.delete(agentId)
    this.#listener?.removed(registration)
  }
}

function registrationsOf(pods: ReadonlyMap<bigint, Renewed> = new Map()): Registration[] {
  return Array.from(pods.values(), ({ registration }) => registration)
}

function isSame(one: Registration, other: Registration): boolean {
  return (
    one.projectId === other.projectId &&
    one.registeredAt === other.registeredAt &&
    one.renewed === other.renewed &&
    Buffer.compare(one.meta, other.meta) === 0
  )
}

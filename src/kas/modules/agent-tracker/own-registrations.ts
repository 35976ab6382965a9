import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Registration } from '../../../membership/membership.ts'
import type { Agent } from '../../agent.ts'

export interface OwnRegistrationsOptions {
  /** time after which a registration without renewal expires, in ms: agentk renews every 5 minutes */
  readonly lifeMs?: number
  /** bytes of a pod's meta, as many as a replica's row takes */
  readonly maxMetaBytes?: number
  /** bytes of the metas of an agent's pods; the pods without renewal for the longest time make room */
  readonly maxMetaBytesPerAgent?: number
  /** pods of an agent: half of its share in a replica's row, which also has its connections */
  readonly maxPodsPerAgent?: number
}

/** Callbacks about registrations. */
export interface RegistrationListener {
  /** Called after a registration was added or changed. */
  registered(registration: Registration): void
  /** Called after a registration was removed: forgotten, expired, or dropped to make room. */
  removed(registration: Registration): void
  /** Called after a pod unregistered, even if it is not registered here. */
  unregistered(agentId: AgentId, podId: bigint): void
}

const defaults = { lifeMs: 330_000, maxMetaBytes: 4096, maxMetaBytesPerAgent: 128 << 10, maxPodsPerAgent: 500 }

export interface OwnRegistrationsComponents {
  /** gives the time of registration */
  readonly clock: Pick<Clock, 'now'>
  /** gives the age of a renewal; it is never set */
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
  /** registrations by agent, then by pod; the longest without renewal first */
  readonly #agents = new Map<AgentId, Map<bigint, Renewed>>()
  #listener: RegistrationListener | undefined

  constructor(components: OwnRegistrationsComponents, options: OwnRegistrationsOptions = {}) {
    this.#components = components
    this.#options = { ...defaults, ...options }
  }

  /** Sets the only listener. */
  listen(listener: RegistrationListener | undefined): void {
    this.#listener = listener
  }

  /**
   * Registers a pod. A renewed registration keeps the time of the first.
   *
   * @param how.renewed - the pod renews it every five minutes; false: it ends with a stream
   * @throws KasError INVALID_MESSAGE if the meta exceeds `maxMetaBytes`
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

  /** Adds a registration unchanged, and counts it as renewed now. */
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

  /** Removes a pod that is registered with another replica now, or has left. */
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

  /** Removes registrations that were not renewed in time; each query does so too. */
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

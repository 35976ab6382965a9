import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Service } from '../../../lib/service.ts'
import type { InstanceId, Registration, RowRegistrations } from '../../../membership/membership.ts'
import type { ConnectedAgentsSource } from './agent-tracker-service.ts'
import type { ConnectedAgent, ConnectedAgents, RegistrationListener } from './own-registrations.ts'

export interface ClusterAgentsComponents {
  /** this replica's */
  readonly own: ConnectedAgents
  readonly registrations: RowRegistrations
  readonly others: {
    /** whether this replica is the first in rank of those that can be reached */
    isFirst(key: string): boolean
    /** a pod that is in the row of `instance` is not there any more; never rejects */
    forgetPod(instance: InstanceId, agentId: AgentId, podId: bigint): Promise<void>
  }
  readonly clock: Clock
  readonly log: Logger
}

/** until the others have the own row, so that a pod that moved is always in one. ms */
const moveMs = 1000
/** Calls are brought elsewhere first, and pods that notice register elsewhere themselves. ms */
const adoptMs = 500
/** until one has taken over the pods of a replica that is gone, and has told so: nobody misses them meanwhile. ms */
const orphanMs = 2000
/** The others hear this late that a pod has been silent for too long. ms */
const sweepMs = 5000

/**
 * The pods that registered with any replica: each publishes its own in its row, so all give the same answers. A pod
 * that registers elsewhere moves there; those of a replica that is gone are taken over by the first in rank, since a
 * stock agent tells again only every five minutes.
 */
export class ClusterAgents implements ConnectedAgentsSource, RegistrationListener, Service {
  readonly #components: ClusterAgentsComponents
  readonly #moves = new Map<string, () => void>()
  /** pods whose row is gone */
  readonly #orphans = new Map<string, ConnectedAgent>()
  readonly #timers = new Set<() => void>()
  #unsubscribe: (() => void) | undefined

  constructor(components: ClusterAgentsComponents) {
    this.#components = components
  }

  async start(): Promise<void> {
    const { own, registrations } = this.#components
    own.listen(this)
    for (const pod of own.all()) this.registered(pod)
    this.#unsubscribe = registrations.onRowGone((gone) => this.#noteOrphans(gone.map(podOf)))
    this.#sweep()
  }

  async stop(): Promise<void> {
    this.#components.own.listen(undefined)
    this.#unsubscribe?.()
    for (const cancel of this.#timers) cancel()
    this.#timers.clear()
    this.#moves.clear()
    this.#orphans.clear()
  }

  ofAgents(ids: ReadonlySet<AgentId>): readonly ConnectedAgent[] {
    const elsewhere = [...ids].flatMap((id) => this.#components.registrations.of(id))
    const orphans = [...this.#orphans.values()].filter(({ agentId }) => ids.has(agentId))
    const pods = elsewhere.map(({ registration }) => podOf(registration))
    return merged([...this.#components.own.ofAgents(ids), ...pods, ...orphans])
  }

  ofProjects(ids: ReadonlySet<bigint>): readonly ConnectedAgent[] {
    return this.all().filter(({ projectId }) => ids.has(projectId))
  }

  all(): readonly ConnectedAgent[] {
    const { own, registrations } = this.#components
    return merged([...own.all(), ...registrations.all().map(podOf), ...this.#orphans.values()])
  }

  registered(pod: ConnectedAgent): void {
    const { own, registrations, log } = this.#components
    const elsewhere = this.#elsewhere(pod)
    const since = Math.min(pod.connectedAt, ...elsewhere.map(({ registration }) => registration.registeredAt))
    if (since < pod.connectedAt) {
      own.put({ ...pod, connectedAt: since }) // and hear of it again
      return
    }
    try {
      registrations.add(registrationOf(pod))
    } catch (error) {
      const agent_id = String(pod.agentId)
      log.debug({ error, agent_id }, 'A registration of an agent is known here, but not told to others')
    }
    if (elsewhere.length > 0) this.#move(pod)
  }

  gone(pod: ConnectedAgent): void {
    this.#components.registrations.remove({ agentId: pod.agentId, podId: pod.connectionId })
    this.#moves.get(idOf(pod))?.()
  }

  unregistered(agentId: AgentId, connectionId: bigint): void {
    const pod = { agentId, connectionId }
    this.#forgetElsewhere(pod)
    if (this.#orphans.delete(idOf(pod))) this.#later(moveMs, () => this.#forgetElsewhere(pod)) // who took it over
  }

  /** The other replica lets go of the pod once it is in the own row everywhere. */
  #move(pod: ConnectedAgent): void {
    const id = idOf(pod)
    this.#moves.get(id)?.()
    const cancel = this.#later(moveMs, () => {
      this.#moves.delete(id)
      this.#forgetElsewhere(pod)
    })
    this.#moves.set(id, () => {
      this.#moves.delete(id)
      cancel()
    })
  }

  #forgetElsewhere(pod: Pick<ConnectedAgent, 'agentId' | 'connectionId'>): void {
    for (const { instance } of this.#elsewhere(pod)) {
      void this.#components.others.forgetPod(instance, pod.agentId, pod.connectionId)
    }
  }

  /** The pod in the rows of others. */
  #elsewhere({ agentId, connectionId }: Pick<ConnectedAgent, 'agentId' | 'connectionId'>) {
    return this.#components.registrations.of(agentId).filter(({ registration }) => registration.podId === connectionId)
  }

  #noteOrphans(gone: readonly ConnectedAgent[]): void {
    const pods = gone.filter(({ renewed }) => renewed)
    if (pods.length === 0) return
    for (const pod of pods) this.#orphans.set(idOf(pod), pod)
    this.#later(adoptMs, () => this.#adopt(pods))
    this.#later(orphanMs, () => {
      for (const pod of pods) this.#orphans.delete(idOf(pod))
    })
  }

  /** Two that do so for a moment are harmless: a pod counts once. */
  #adopt(pods: readonly ConnectedAgent[]): void {
    const { own, others } = this.#components
    for (const pod of pods) {
      const { agentId, connectionId } = pod
      if (!this.#orphans.has(idOf(pod)) || own.has(agentId, connectionId)) continue
      if (others.isFirst(String(agentId)) && this.#elsewhere(pod).length === 0) own.put(pod)
    }
  }

  #sweep(): void {
    this.#components.own.dropOld()
    this.#later(sweepMs, () => this.#sweep())
  }

  /** @returns calls it off, as `stop` does */
  #later(ms: number, action: () => void): () => void {
    const cancel = this.#components.clock.after(ms, () => {
      this.#timers.delete(cancel)
      action()
    })
    this.#timers.add(cancel)
    return () => {
      this.#timers.delete(cancel)
      cancel()
    }
  }
}

function idOf({ agentId, connectionId }: Pick<ConnectedAgent, 'agentId' | 'connectionId'>): string {
  return `pod ${agentId} ${connectionId}`
}

function registrationOf({ connectionId: podId, connectedAt: registeredAt, ...pod }: ConnectedAgent): Registration {
  return { ...pod, podId, registeredAt }
}

function podOf({ agentId, projectId, podId, registeredAt, meta, renewed }: Registration): ConnectedAgent {
  return { agentId, projectId, connectionId: podId, connectedAt: registeredAt, meta, renewed }
}

/** Each pod once, and the same one at each replica: the one that has been there for the longest. */
function merged(pods: readonly ConnectedAgent[]): readonly ConnectedAgent[] {
  const byId = new Map<string, ConnectedAgent>()
  for (const pod of pods) {
    const other = byId.get(idOf(pod))
    if (!other || precedes(pod, other)) byId.set(idOf(pod), pod)
  }
  return [...byId.values()]
}

function precedes(one: ConnectedAgent, other: ConnectedAgent): boolean {
  if (one.connectedAt !== other.connectedAt) return one.connectedAt < other.connectedAt
  return Buffer.compare(one.meta, other.meta) < 0
}

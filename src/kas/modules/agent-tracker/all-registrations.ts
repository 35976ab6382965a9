import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Service } from '../../../lib/service.ts'
import type { InstanceId, Registration, RowRegistrations } from '../../../membership/membership.ts'
import type { OwnRegistrations, RegistrationListener } from './own-registrations.ts'
import type { RegistrationSource } from './rails-service.ts'

export interface AllRegistrationsComponents {
  /** this replica's */
  readonly own: OwnRegistrations
  /** of the rows */
  readonly registrations: RowRegistrations
  readonly peers: {
    /** whether this replica is the first in rank of those that can be reached */
    isFirst(key: string): boolean
    /** a pod in the row of `instance` is registered elsewhere now, or has left; never rejects */
    forgetPod(instance: InstanceId, agentId: AgentId, podId: bigint): Promise<void>
  }
  readonly clock: Clock
  readonly log: Logger
}

/** until all peers have the own row, so that a pod that moves is always in one. ms */
const moveMs = 1000
/** Calls are brought elsewhere first, and pods that notice register elsewhere themselves. ms */
const adoptMs = 500
/** until a peer has adopted the pods of a row that is gone, and published them: they are listed meanwhile. ms */
const orphanMs = 2000
/** Registrations that expire leave the own row this late. ms */
const expiryCheckMs = 5000

/**
 * The pods that registered with any replica: each publishes its own in its row, so all give the same answers. A pod
 * that registers elsewhere moves there; those of a replica that is gone are adopted by the first in rank, since a stock
 * agent registers again only every five minutes.
 */
export class AllRegistrations implements RegistrationSource, RegistrationListener, Service {
  readonly #components: AllRegistrationsComponents
  readonly #moves = new Map<string, () => void>()
  /** from rows that are gone */
  readonly #orphans = new Map<string, Registration>()
  readonly #timers = new Set<() => void>()
  #unsubscribe: (() => void) | undefined

  constructor(components: AllRegistrationsComponents) {
    this.#components = components
  }

  async start(): Promise<void> {
    const { own, registrations } = this.#components
    own.listen(this)
    for (const registration of own.all()) this.registered(registration)
    this.#unsubscribe = registrations.onRowRemoved((orphans) => this.#keepOrphans(orphans))
    this.#checkExpiry()
  }

  async stop(): Promise<void> {
    this.#components.own.listen(undefined)
    this.#unsubscribe?.()
    for (const cancel of this.#timers) cancel()
    this.#timers.clear()
    this.#moves.clear()
    this.#orphans.clear()
  }

  ofAgents(ids: ReadonlySet<AgentId>): readonly Registration[] {
    const elsewhere = [...ids].flatMap((id) => this.#components.registrations.of(id))
    const orphans = [...this.#orphans.values()].filter(({ agentId }) => ids.has(agentId))
    const ofPeers = elsewhere.map(({ registration }) => registration)
    return merged([...this.#components.own.ofAgents(ids), ...ofPeers, ...orphans])
  }

  ofProjects(ids: ReadonlySet<bigint>): readonly Registration[] {
    return this.all().filter(({ projectId }) => ids.has(projectId))
  }

  all(): readonly Registration[] {
    const { own, registrations } = this.#components
    return merged([...own.all(), ...registrations.all(), ...this.#orphans.values()])
  }

  registered(registration: Registration): void {
    const { own, registrations, log } = this.#components
    const elsewhere = this.#elsewhere(registration)
    const since = Math.min(registration.registeredAt, ...elsewhere.map((known) => known.registration.registeredAt))
    if (since < registration.registeredAt) {
      own.put({ ...registration, registeredAt: since }) // which calls this again
      return
    }
    try {
      registrations.add(registration)
    } catch (error) {
      const agent_id = String(registration.agentId)
      log.debug({ error, agent_id }, 'A registration of an agent is known here, but not sent to others')
    }
    if (elsewhere.length > 0) this.#move(registration)
  }

  removed(registration: Registration): void {
    this.#components.registrations.remove(registration)
    this.#moves.get(keyOf(registration))?.()
  }

  unregistered(agentId: AgentId, podId: bigint): void {
    const pod = { agentId, podId }
    this.#forgetElsewhere(pod)
    if (this.#orphans.delete(keyOf(pod))) this.#later(moveMs, () => this.#forgetElsewhere(pod)) // who adopted it
  }

  /** The peer forgets the pod once all have it in the own row. */
  #move(pod: Pod): void {
    const key = keyOf(pod)
    this.#moves.get(key)?.()
    const cancel = this.#later(moveMs, () => {
      this.#moves.delete(key)
      this.#forgetElsewhere(pod)
    })
    this.#moves.set(key, () => {
      this.#moves.delete(key)
      cancel()
    })
  }

  #forgetElsewhere(pod: Pod): void {
    for (const { instance } of this.#elsewhere(pod)) {
      void this.#components.peers.forgetPod(instance, pod.agentId, pod.podId)
    }
  }

  /** The pod in the rows of peers. */
  #elsewhere({ agentId, podId }: Pod) {
    return this.#components.registrations.of(agentId).filter(({ registration }) => registration.podId === podId)
  }

  #keepOrphans(registrations: readonly Registration[]): void {
    const orphans = registrations.filter(({ renewed }) => renewed)
    if (orphans.length === 0) return
    for (const orphan of orphans) this.#orphans.set(keyOf(orphan), orphan)
    this.#later(adoptMs, () => this.#adopt(orphans))
    this.#later(orphanMs, () => {
      for (const orphan of orphans) this.#orphans.delete(keyOf(orphan))
    })
  }

  /** Two that do so for a moment are harmless: a pod counts once. */
  #adopt(orphans: readonly Registration[]): void {
    const { own, peers } = this.#components
    for (const orphan of orphans) {
      const { agentId, podId } = orphan
      if (!this.#orphans.has(keyOf(orphan)) || own.has(agentId, podId)) continue
      if (peers.isFirst(String(agentId)) && this.#elsewhere(orphan).length === 0) own.put(orphan)
    }
  }

  #checkExpiry(): void {
    this.#components.own.expire()
    this.#later(expiryCheckMs, () => this.#checkExpiry())
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

type Pod = Pick<Registration, 'agentId' | 'podId'>

function keyOf({ agentId, podId }: Pod): string {
  return `${agentId} ${podId}`
}

/** Each pod once, and the same one at each replica: the one that registered first. */
function merged(registrations: readonly Registration[]): readonly Registration[] {
  const byPod = new Map<string, Registration>()
  for (const registration of registrations) {
    const other = byPod.get(keyOf(registration))
    if (!other || precedes(registration, other)) byPod.set(keyOf(registration), registration)
  }
  return [...byPod.values()]
}

function precedes(one: Registration, other: Registration): boolean {
  if (one.registeredAt !== other.registeredAt) return one.registeredAt < other.registeredAt
  return Buffer.compare(one.meta, other.meta) < 0
}

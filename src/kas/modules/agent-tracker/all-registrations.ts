import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Service } from '../../../lib/service.ts'
import type { InstanceId, Registration, RowRegistrations } from '../../../membership/membership.ts'
import type { OwnRegistrations, RegistrationListener } from './own-registrations.ts'
import type { RegistrationSource } from './rails-service.ts'

export interface AllRegistrationsComponents {
  /** registrations at this replica */
  readonly own: OwnRegistrations
  /** registrations in the rows of the table */
  readonly registrations: RowRegistrations
  readonly peers: {
    /** true if this replica is the first in rank of those in reach */
    isFirst(key: string): boolean
    /** reports to `instance` that the pod in its row is registered elsewhere now, or has left; never rejects */
    forgetPod(instance: InstanceId, agentId: AgentId, podId: bigint): Promise<void>
  }
  readonly clock: Clock
  readonly log: Logger
}

/** Time in ms until all peers have this replica's row, so that a pod that moves is always in one row. */
const moveMs = 1000
/**
 * Time in ms before pods are adopted: calls move first, and pods that notice the loss register elsewhere themselves.
 */
const adoptMs = 500
/**
 * Time in ms until a peer has adopted and published the pods of a removed row; until then they are listed as orphans.
 */
const orphanMs = 2000
/** Period in ms at which expired registrations leave the own row. */
const expiryCheckMs = 5000

/**
 * The pods that registered with any replica. Each replica publishes its own in its row, so all give the same answers. A
 * pod that registers elsewhere moves there. The first replica in rank adopts the pods of a lost replica, since a stock
 * agent registers again only every five minutes.
 */
export class AllRegistrations implements RegistrationSource, RegistrationListener, Service {
  readonly #components: AllRegistrationsComponents
  readonly #moves = new Map<string, () => void>()
  /** registrations of removed rows */
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
      own.put({ ...registration, registeredAt: since }) // calls this method again
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
    if (this.#orphans.delete(keyOf(pod))) this.#later(moveMs, () => this.#forgetElsewhere(pod)) // perhaps adopted
  }

  /** Removes the pod from other rows once all peers have it in the own row. */
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

  /** Returns the pod's registrations in the rows of peers. */
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

  /** Adopts pods of a lost replica. If two replicas do so for a moment, a pod still counts once. */
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

  /** @returns the function that cancels the timer, as `stop` does */
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

/** Returns each pod once, and the same registration at each replica: the earliest. */
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

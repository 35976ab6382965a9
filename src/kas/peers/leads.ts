import { create } from '@bufbuild/protobuf'
import type { AgentId } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { KeyedListeners } from '../../lib/listeners.ts'
import type { Service } from '../../lib/service.ts'
import type { Membership } from '../../membership/membership.ts'
import { Leads as LeadsService, PassedOnResponseSchema } from '../../proto/gen/replica_leads_pb.ts'
import { type UnaryMethods, unaryService } from '../../proto/unary.ts'
import type { Peers } from './peers.ts'

export type LeadMembership = Pick<Membership, 'name' | 'rank' | 'holders' | 'onChange'>

export interface LeadsComponents {
  /** undefined: this replica is alone */
  readonly membership: LeadMembership | undefined
  readonly peers: Pick<Peers, 'broadcast'>
  readonly clock: Clock
}

/** How long a replica that failed is passed over. ms */
const passedOverMs = 600_000
/** Entries for replicas that are passed over, each for one agent; the oldest makes room. */
const maxPassedOver = 10_000

/**
 * Decides which replica leads for an agent, that is, does work that one replica should do for all. The leader is the
 * first replica in the ring's order for the agent that has the agent connected. Only such replicas have the token with
 * which GitLab says where the agent's repository is. A leader that fails repeatedly passes the lead on. Two replicas
 * may lead for a moment. Without peers this replica leads.
 */
export class Leads implements Service {
  readonly #components: LeadsComponents
  readonly #unsubscribe: (() => void) | undefined
  /** cancels the end of passing over, by agent and replica name */
  readonly #passedOver = new Map<string, () => void>()
  readonly #listeners = new KeyedListeners<AgentId>()
  /** agents whose lead is being passed on */
  readonly #passing = new Set<AgentId>()
  #isStopped = false

  constructor(components: LeadsComponents) {
    this.#components = components
    this.#unsubscribe = components.membership?.onChange((change) => {
      if (change.kind === 'registrations') return
      for (const agentId of change.kind === 'members' ? this.#listeners.keys() : change.agentIds) this.#notify(agentId)
    })
  }

  /** Methods that peers call. */
  get replicaMethods(): UnaryMethods {
    return unaryService(LeadsService, {
      passedOn: async ({ agentId, name }) => {
        this.passOver(agentId as AgentId, name)
        return create(PassedOnResponseSchema)
      },
    })
  }

  async start(): Promise<void> {}

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#unsubscribe?.()
    for (const cancel of this.#passedOver.values()) cancel()
    this.#passedOver.clear()
  }

  /** True if this replica leads for the agent. */
  leads(agentId: AgentId): boolean {
    const { membership } = this.#components
    if (!membership) return true
    const able = this.#able(membership, agentId)
    const first = able.find((name) => !this.#isPassedOver(agentId, name)) ?? able[0]
    return first === undefined || first === membership.name // when all replicas are leaving, `rank` is empty
  }

  /** Passes the lead on after this replica failed: the next in rank leads once it has acknowledged that. */
  passOn(agentId: AgentId): void {
    const { membership } = this.#components
    if (!membership || !this.leads(agentId) || this.#passing.has(agentId)) return
    const next = this.#able(membership, agentId).find(
      (name) => name !== membership.name && !this.#isPassedOver(agentId, name),
    )
    if (next === undefined) return
    this.#passing.add(agentId)
    const { name } = membership
    void this.#components.peers.broadcast(LeadsService.method.passedOn, { agentId, name }).then((answers) => {
      this.#passing.delete(agentId)
      if ([...answers.keys()].some((peer) => peer.name === next)) this.passOver(agentId, name)
    })
  }

  /** Passes over the named replica: it cannot lead for the agent now. */
  passOver(agentId: AgentId, name: string): void {
    if (this.#isStopped) return
    const key = keyOf(agentId, name)
    this.#forget(key)
    const cancel = this.#components.clock.after(passedOverMs, () => {
      this.#passedOver.delete(key)
      this.#notify(agentId)
    })
    this.#passedOver.set(key, cancel)
    const [oldest] = this.#passedOver.keys()
    if (this.#passedOver.size > maxPassedOver && oldest !== undefined) this.#forget(oldest)
    this.#notify(agentId)
  }

  /** Calls `listener` when `leads` may have changed, until the returned function is called. */
  onChange(agentId: AgentId, listener: () => void): () => void {
    return this.#listeners.add(agentId, listener)
  }

  /** Names of the replicas that could lead, best first; empty: no peer could. */
  #able(membership: LeadMembership, agentId: AgentId): string[] {
    const holders = membership.holders(agentId).filter(isHome)
    if (holders.length === 0) return []
    const peers = new Set(holders.map(({ row }) => row.head.name))
    return membership.rank(String(agentId)).filter((name) => name === membership.name || peers.has(name))
  }

  #isPassedOver(agentId: AgentId, name: string): boolean {
    return this.#passedOver.has(keyOf(agentId, name))
  }

  #forget(key: string): void {
    this.#passedOver.get(key)?.()
    this.#passedOver.delete(key)
  }

  #notify(agentId: AgentId): void {
    this.#listeners.notify(agentId)
  }
}

const keyOf = (agentId: AgentId, name: string) => `${agentId} ${name}`

/** True if the agent has its configuration stream there: at home only. A connection that it leaves serves no method. */
function isHome({ connections }: ReturnType<LeadMembership['holders']>[number]): boolean {
  return connections.some(({ role, methods }) => role === 'home' && methods.length > 0)
}

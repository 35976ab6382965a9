import type { AgentId, Metadata } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Service } from '../../../lib/service.ts'
import { writeHints } from '../../../proto/placement.ts'
import type { AgentConnection } from '../../tunnels/agent-connection.ts'
import type { Placement } from '../../tunnels/home-placement.ts'

export interface HomeHintsComponents {
  /** absent: this replica is alone, and announces only its interval of PINGs */
  readonly placement?: Placement
  readonly clock: Clock
}

export interface HomeHintsOptions {
  /** interval at which agents may send PINGs (doc/decisions/0006-ping-interval.md). ms */
  readonly pingIntervalMs: number
  /** delay from the first change to new hints, because pods and replicas come and go in groups. ms */
  readonly settleMs: number
  /** pause between two pods that get new hints. ms */
  readonly spreadMs: number
  /** names of modules' features: agentk asks for them */
  readonly features: readonly string[]
}

export const defaultHomeHints: HomeHintsOptions = { pingIntervalMs: 5000, settleMs: 2000, spreadMs: 200, features: [] }

/** Pods that are checked in one turn, because an agent may have thousands of connections. */
const maxChecks = 100

/** A pod of an agent on one connection, with its last hints. */
interface HintedPod {
  readonly agent: HintedAgent
  readonly name: string
  /** the last hints, as JSON */
  text: string
  /** number of the newest change that its hints consider, on the scale of `changedAt` */
  seenChange: number
  /** the newest change for which its hints were renewed, or needed no renewal */
  renewedChange: number
  /** each ends an idle tunnel with OK; returns true if the tunnel was idle */
  readonly idle: Set<() => boolean>
}

interface HintedAgent {
  readonly id: AgentId
  readonly pods: Set<HintedPod>
  /** number of the last change that may concern the agent */
  changedAt: number
}

/**
 * Sends hints about the replicas to which an agent's pods should connect, in the response metadata of Connect. The
 * first Connect of a connection gets hints, and the next one after a change. If no Connect comes after a change, one
 * idle tunnel ends with OK: the agent opens it again at once. A few tunnels a second end so.
 */
export class HomeHints implements Service {
  readonly #components: HomeHintsComponents
  readonly #options: HomeHintsOptions
  readonly #pods = new Map<AgentConnection, Map<AgentId, HintedPod>>()
  readonly #agents = new Map<AgentId, HintedAgent>()
  /** agents with pods that may need new hints, in the order of their turns */
  readonly #waiting = new Set<HintedAgent>()
  #changes = 0
  /** number of the last change that concerned all agents */
  #changedAll = 0
  #cancel: (() => void) | undefined
  #isLeaving = false
  #unsubscribe: (() => void) | undefined

  constructor(components: HomeHintsComponents, options: HomeHintsOptions = defaultHomeHints) {
    this.#components = components
    this.#options = options
  }

  async start(): Promise<void> {
    this.#unsubscribe = this.#components.placement?.onChange((agentIds) => this.#changed(agentIds))
  }

  /** Sends new hints to all pods at once, because this replica leaves. */
  async leave(): Promise<void> {
    this.#isLeaving = true
    this.#cancel?.()
    this.#cancel = undefined
    const before = this.#changes
    await undefined // all parts leave in this turn: the change of this replica's state may already renew all hints
    if (this.#changedAll <= before) this.#changed('all')
  }

  async stop(): Promise<void> {
    this.#unsubscribe?.()
    this.#cancel?.()
    this.#cancel = undefined
    this.#waiting.clear()
  }

  /** Returns the hints for a Connect that was just opened; undefined: the pod has them already. */
  hints(connection: AgentConnection, agentId: AgentId, pod: string): Metadata | undefined {
    const hinted = this.#of(connection, agentId, pod)
    if (hinted.seenChange >= hinted.agent.changedAt) return undefined
    hinted.seenChange = this.#changes
    hinted.renewedChange = this.#changes
    const hints = this.#compute(hinted)
    const text = JSON.stringify(hints)
    if (text === hinted.text) return undefined
    hinted.text = text
    return hints
  }

  /** Registers an idle tunnel that may be ended to send new hints, until the returned function is called. */
  idle(connection: AgentConnection, agentId: AgentId, end: () => boolean): () => void {
    const pod = this.#pods.get(connection)?.get(agentId)
    pod?.idle.add(end)
    return () => void pod?.idle.delete(end)
  }

  #compute({ agent, name }: HintedPod): Metadata {
    const { placement } = this.#components
    const { pingIntervalMs, features } = this.#options
    const always = { replica: placement?.here, pingIntervalMs, reuse: true, features, leaving: this.#isLeaving }
    return writeHints({ ...placement?.homeOf(agent.id, name), ...always })
  }

  #of(connection: AgentConnection, agentId: AgentId, name: string): HintedPod {
    const ofConnection = this.#pods.get(connection) ?? new Map<AgentId, HintedPod>()
    if (!this.#pods.has(connection)) {
      this.#pods.set(connection, ofConnection)
      void connection.session.closed.then(() => {
        this.#pods.delete(connection)
        for (const pod of ofConnection.values()) this.#forget(pod)
      })
    }
    const known = ofConnection.get(agentId)
    if (known) return known
    const agent = this.#agents.get(agentId) ?? { id: agentId, pods: new Set(), changedAt: this.#changes }
    const pod: HintedPod = { agent, name, text: '', seenChange: -1, renewedChange: this.#changes, idle: new Set() }
    ofConnection.set(agentId, pod)
    agent.pods.add(pod)
    this.#agents.set(agentId, agent)
    return pod
  }

  #forget(pod: HintedPod): void {
    const { agent } = pod
    agent.pods.delete(pod)
    if (agent.pods.size > 0) return
    this.#agents.delete(agent.id)
    this.#waiting.delete(agent)
  }

  #changed(agentIds: ReadonlySet<AgentId> | 'all'): void {
    this.#changes++
    if (agentIds === 'all') this.#changedAll = this.#changes
    for (const agentId of agentIds === 'all' ? this.#agents.keys() : agentIds) {
      const agent = this.#agents.get(agentId)
      if (!agent) continue
      agent.changedAt = this.#changes
      this.#waiting.add(agent)
    }
    if (this.#waiting.size === 0) return
    if (this.#isLeaving) this.#renewNext()
    else this.#cancel ??= this.#components.clock.after(this.#options.settleMs, () => this.#renewNext())
  }

  /** Renews the hints of the first pod that needs it; when leaving, of all pods. */
  #renewNext(): void {
    this.#cancel = undefined
    let checks = 0
    for (const agent of this.#waiting) {
      for (const pod of agent.pods) {
        if (pod.renewedChange >= agent.changedAt) continue
        const ended = this.#renew(pod)
        if (this.#isLeaving || (!ended && ++checks < maxChecks)) continue
        this.#waiting.delete(agent)
        this.#waiting.add(agent) // to the end: an agent that changes all the time would always be the first
        this.#cancel = this.#components.clock.after(this.#options.spreadMs, () => this.#renewNext())
        return
      }
      this.#waiting.delete(agent)
    }
  }

  /** @returns true: an idle tunnel ended; else the next tunnel that the pod opens gets the hints */
  #renew(pod: HintedPod): boolean {
    pod.renewedChange = this.#changes
    if (JSON.stringify(this.#compute(pod)) === pod.text) {
      pod.seenChange = this.#changes
      return false
    }
    return [...pod.idle].some((end) => end())
  }
}

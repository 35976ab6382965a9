import type { AgentId, Metadata } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Service } from '../../../lib/service.ts'
import { writeHints } from '../../../proto/placement.ts'
import type { AgentConnection } from '../../tunnels/agent-connection.ts'
import type { Placement } from '../../tunnels/placement.ts'

export interface HomeHintsComponents {
  /** absent: this replica is alone, and only PINGs are announced */
  readonly placement?: Placement
  readonly clock: Clock
}

export interface HomeHintsOptions {
  /** agents may send PINGs this often (doc/decisions/0006-ping-interval.md). ms */
  readonly pingIntervalMs: number
  /** pods and replicas come and go in groups: connections are asked to move this long after the first change. ms */
  readonly settleMs: number
  /** between two connections that are asked to move. ms */
  readonly spreadMs: number
}

export const defaultHomeHints: HomeHintsOptions = { pingIntervalMs: 5000, settleMs: 2000, spreadMs: 200 }

/** Pods that are checked in one turn: an agent may have thousands of connections. */
const maxChecks = 100

/** A pod of an agent on one connection, and the hints that it has. */
interface HintedPod {
  readonly agent: HintedAgent
  readonly name: string
  /** the last hints, as text */
  text: string
  /** the newest change that its hints take into account: a number as `changedAt` */
  seenChange: number
  /** the newest change for which it was asked to get its hints, or needed none */
  askedChange: number
  /** each ends an idle tunnel with OK, and says whether it did */
  readonly idle: Set<() => boolean>
}

interface HintedAgent {
  readonly id: AgentId
  readonly pods: Set<HintedPod>
  /** number of the last change that may concern it */
  changedAt: number
}

/**
 * Tells agents that understand it where they should be, in the response metadata of Connect: on the first one of a
 * connection, then on the next after a change. Where none is opened after a change, one idle tunnel is ended with OK,
 * which the agent opens again at once: a few connections a second.
 */
export class HomeHints implements Service {
  readonly #components: HomeHintsComponents
  readonly #options: HomeHintsOptions
  readonly #pods = new Map<AgentConnection, Map<AgentId, HintedPod>>()
  readonly #agents = new Map<AgentId, HintedAgent>()
  /** with pods that may need new hints, who take turns */
  readonly #waiting = new Set<HintedAgent>()
  #changes = 0
  #cancel: (() => void) | undefined
  #hurried = false
  #unsubscribe: (() => void) | undefined

  constructor(components: HomeHintsComponents, options: HomeHintsOptions = defaultHomeHints) {
    this.#components = components
    this.#options = options
  }

  async start(): Promise<void> {
    this.#unsubscribe = this.#components.placement?.onChange((agentIds) => this.#changed(agentIds))
  }

  /** This replica leaves: from now on all get their hints at once. */
  async leave(): Promise<void> {
    this.#hurried = true
    this.#cancel?.()
    this.#cancel = undefined
    this.#changed('all')
  }

  async stop(): Promise<void> {
    this.#unsubscribe?.()
    this.#cancel?.()
    this.#cancel = undefined
    this.#waiting.clear()
  }

  /** What to say on a Connect that has just been opened; undefined if the pod has these hints. */
  hints(connection: AgentConnection, agentId: AgentId, pod: string): Metadata | undefined {
    const hinted = this.#of(connection, agentId, pod)
    if (hinted.seenChange >= hinted.agent.changedAt) return undefined
    hinted.seenChange = this.#changes
    hinted.askedChange = this.#changes
    const hints = this.#compute(hinted)
    const text = JSON.stringify(hints)
    if (text === hinted.text) return undefined
    hinted.text = text
    return hints
  }

  /** An idle tunnel that may be ended to say more, until the returned function is called. */
  idle(connection: AgentConnection, agentId: AgentId, end: () => boolean): () => void {
    const pod = this.#pods.get(connection)?.get(agentId)
    pod?.idle.add(end)
    return () => void pod?.idle.delete(end)
  }

  #compute({ agent, name }: HintedPod): Metadata {
    const { placement } = this.#components
    const { pingIntervalMs } = this.#options
    return writeHints({ ...placement?.homeOf(agent.id, name), replica: placement?.here, pingIntervalMs, reuse: true })
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
    const pod: HintedPod = { agent, name, text: '', seenChange: -1, askedChange: this.#changes, idle: new Set() }
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
    for (const agentId of agentIds === 'all' ? this.#agents.keys() : agentIds) {
      const agent = this.#agents.get(agentId)
      if (!agent) continue
      agent.changedAt = this.#changes
      this.#waiting.add(agent)
    }
    if (this.#waiting.size === 0) return
    if (this.#hurried) this.#askNext()
    else this.#cancel ??= this.#components.clock.after(this.#options.settleMs, () => this.#askNext())
  }

  /** Asks the first that needs new hints; when leaving, all of them. */
  #askNext(): void {
    this.#cancel = undefined
    let checks = 0
    for (const agent of this.#waiting) {
      for (const pod of agent.pods) {
        if (pod.askedChange >= agent.changedAt) continue
        const ended = this.#ask(pod)
        if (this.#hurried || (!ended && ++checks < maxChecks)) continue
        this.#waiting.delete(agent)
        this.#waiting.add(agent) // behind the others: one that changes all the time would always be the first
        this.#cancel = this.#components.clock.after(this.#options.spreadMs, () => this.#askNext())
        return
      }
      this.#waiting.delete(agent)
    }
  }

  /** @returns whether an idle tunnel ended; without one, the next that the pod opens gets the hints */
  #ask(pod: HintedPod): boolean {
    pod.askedChange = this.#changes
    if (JSON.stringify(this.#compute(pod)) === pod.text) {
      pod.seenChange = this.#changes
      return false
    }
    return [...pod.idle].some((end) => end())
  }
}

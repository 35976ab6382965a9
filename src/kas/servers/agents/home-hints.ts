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

/** Connections that are looked at in one turn: an agent may have thousands. */
const maxLooks = 100

/** What one pod was told on one connection. */
interface Told {
  readonly agent: Hinted
  readonly pod: string
  /** the last hints, as text */
  text: string
  /** changes that its hints take into account: a number as `changedAt` */
  heardOf: number
  /** changes after which it was asked to hear its hints, or needed not to be */
  askedFor: number
  /** each ends an idle tunnel with OK, and says whether it did */
  readonly idle: Set<() => boolean>
}

/** An agent with connections that are told. */
interface Hinted {
  readonly id: AgentId
  readonly told: Set<Told>
  /** number of the last change that may concern it */
  changedAt: number
}

/**
 * Tells agents that understand it where they should be, in the response metadata of Connect: on the first one of a
 * connection, then on the next after a change. A connection that has not heard a change has one idle tunnel ended with
 * OK, which the agent opens again at once: a few connections a second.
 */
export class HomeHints implements Service {
  readonly #components: HomeHintsComponents
  readonly #options: HomeHintsOptions
  readonly #told = new Map<AgentConnection, Map<AgentId, Told>>()
  readonly #agents = new Map<AgentId, Hinted>()
  /** with connections that may have something to hear, who take turns */
  readonly #waiting = new Set<Hinted>()
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

  /** This replica leaves: from now on nobody waits to hear it. */
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

  /** What to say on a Connect that has just been opened; undefined if the connection has heard it. */
  hints(connection: AgentConnection, agentId: AgentId, pod: string): Metadata | undefined {
    const told = this.#of(connection, agentId, pod)
    if (told.heardOf >= told.agent.changedAt) return undefined
    told.heardOf = this.#changes
    told.askedFor = this.#changes
    const hints = this.#compute(told)
    const text = JSON.stringify(hints)
    if (text === told.text) return undefined
    told.text = text
    return hints
  }

  /** An idle tunnel that may be ended to say more, until the returned function is called. */
  idle(connection: AgentConnection, agentId: AgentId, end: () => boolean): () => void {
    const told = this.#told.get(connection)?.get(agentId)
    told?.idle.add(end)
    return () => void told?.idle.delete(end)
  }

  #compute({ agent, pod }: Told): Metadata {
    const { placement } = this.#components
    const { pingIntervalMs } = this.#options
    return writeHints({ ...placement?.homeOf(agent.id, pod), replica: placement?.here, pingIntervalMs, reuse: true })
  }

  #of(connection: AgentConnection, agentId: AgentId, pod: string): Told {
    const ofConnection = this.#told.get(connection) ?? new Map<AgentId, Told>()
    if (!this.#told.has(connection)) {
      this.#told.set(connection, ofConnection)
      void connection.session.closed.then(() => {
        this.#told.delete(connection)
        for (const told of ofConnection.values()) this.#forget(told)
      })
    }
    const known = ofConnection.get(agentId)
    if (known) return known
    const agent = this.#agents.get(agentId) ?? { id: agentId, told: new Set(), changedAt: this.#changes }
    const told: Told = { agent, pod, text: '', heardOf: -1, askedFor: this.#changes, idle: new Set() }
    ofConnection.set(agentId, told)
    agent.told.add(told)
    this.#agents.set(agentId, agent)
    return told
  }

  #forget(told: Told): void {
    const { agent } = told
    agent.told.delete(told)
    if (agent.told.size > 0) return
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

  /** Asks the first that has something to hear; when leaving, all of them. */
  #askNext(): void {
    this.#cancel = undefined
    let looks = 0
    for (const agent of this.#waiting) {
      for (const told of agent.told) {
        if (told.askedFor >= agent.changedAt) continue
        const ended = this.#ask(told)
        if (this.#hurried || (!ended && ++looks < maxLooks)) continue
        this.#waiting.delete(agent)
        this.#waiting.add(agent) // behind the others: one that changes all the time would always be the first
        this.#cancel = this.#components.clock.after(this.#options.spreadMs, () => this.#askNext())
        return
      }
      this.#waiting.delete(agent)
    }
  }

  /** @returns whether an idle tunnel ended; without one, the next that it opens will hear it */
  #ask(told: Told): boolean {
    told.askedFor = this.#changes
    if (JSON.stringify(this.#compute(told)) === told.text) {
      told.heardOf = this.#changes
      return false
    }
    return [...told.idle].some((end) => end())
  }
}

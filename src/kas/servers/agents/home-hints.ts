import type { Clock } from '../../../lib/clock.ts'
import type { Service } from '../../../lib/service.ts'
import type { AgentId, Metadata } from '../../../proto/call.ts'
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

/** What one pod was told on one connection. */
interface Told {
  readonly agentId: AgentId
  readonly pod: string
  /** the last hints, as text */
  text: string
  /** something has changed since */
  stale: boolean
  /** each ends an idle tunnel with OK, and says whether it did */
  readonly idle: Set<() => boolean>
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
  readonly #byAgent = new Map<AgentId, Set<Told>>()
  readonly #waiting = new Set<Told>()
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
    if (!told.stale) return undefined
    told.stale = false
    this.#waiting.delete(told)
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

  #compute({ agentId, pod }: Told): Metadata {
    const { placement } = this.#components
    const hints: Record<string, string[]> = {
      'kas-ping-interval-ms': [String(this.#options.pingIntervalMs)],
      'kas-features': ['reuse'],
    }
    if (!placement) return hints
    hints['kas-replica'] = [placement.here]
    const placed = placement.homeOf(agentId, pod)
    if (!placed) return hints
    const { home, standby } = placed
    hints['kas-home'] = [home.name]
    if (home.address !== undefined) hints['kas-home-address'] = [home.address]
    if (standby) hints['kas-standby'] = [standby.name]
    if (standby?.address !== undefined) hints['kas-standby-address'] = [standby.address]
    return hints
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
    const told: Told = { agentId, pod, text: '', stale: true, idle: new Set() }
    ofConnection.set(agentId, told)
    const ofAgent = this.#byAgent.get(agentId)
    if (ofAgent) ofAgent.add(told)
    else this.#byAgent.set(agentId, new Set([told]))
    return told
  }

  #forget(told: Told): void {
    this.#waiting.delete(told)
    const ofAgent = this.#byAgent.get(told.agentId)
    ofAgent?.delete(told)
    if (ofAgent?.size === 0) this.#byAgent.delete(told.agentId)
  }

  #changed(agentIds: ReadonlySet<AgentId> | 'all'): void {
    for (const agentId of agentIds === 'all' ? this.#byAgent.keys() : agentIds) {
      for (const told of this.#byAgent.get(agentId) ?? []) {
        told.stale = true
        this.#waiting.add(told)
      }
    }
    if (this.#waiting.size === 0) return
    if (this.#hurried) this.#askNext()
    else this.#cancel ??= this.#components.clock.after(this.#options.settleMs, () => this.#askNext())
  }

  /** Asks the first that has something to hear; when leaving, all. */
  #askNext(): void {
    this.#cancel = undefined
    for (const told of this.#waiting) {
      this.#waiting.delete(told)
      if (JSON.stringify(this.#compute(told)) === told.text) {
        told.stale = false
        continue
      }
      // without an idle tunnel, the next one that it opens will hear it
      const ended = [...told.idle].some((end) => end())
      if (!ended || this.#hurried) continue
      if (this.#waiting.size > 0) {
        this.#cancel = this.#components.clock.after(this.#options.spreadMs, () => this.#askNext())
      }
      return
    }
  }
}

import type { AgentId } from '../../src/call/call.ts'
import { Seeded } from '../support/seeded.ts'
import { Ledger } from './ledger.ts'
import type { PlantedBug } from './planted-bugs.ts'
import { methods, SimulatedAgent } from './simulated-agent.ts'
import { SimulatedDiscovery } from './simulated-discovery.ts'
import type { Turbulence } from './simulated-gossip.ts'
import { ports, SimulatedNetwork } from './simulated-network.ts'
import { SimulatedReplica } from './simulated-replica.ts'
import { Machine, VirtualTime } from './virtual-time.ts'

export interface WorldOptions {
  readonly seed: number
  readonly replicas: number
  /** number of agents' pods; some are two of one agent */
  readonly agents: number
  readonly bug: PlantedBug | undefined
}

/** faults of published messages in a good network */
const goodTurbulence: Turbulence = { loss: 0.01, duplicates: 0.01, late: 0.02, maxLateMs: 200 }
/** shares of pods, 0 to 1: second ones of an agent; those without a method; those that ping their kas */
const secondPods = 0.2
const partialPods = 0.1
const pingingPods = 0.5
/** share of replicas that come back at another address, 0 to 1 */
const movingReplicas = 0.4
/** time until a replica is back. ms */
const absenceMs = 8000
/** time in which all replicas, and all agents, start. ms */
const startMs = 2000

/** All parts of a simulation: replicas, agents, and the network between them. */
export class World {
  readonly chance: Seeded
  readonly time: VirtualTime
  readonly network: SimulatedNetwork
  readonly ledger: Ledger
  readonly discovery: SimulatedDiscovery
  readonly turbulence: Turbulence = { ...goodTurbulence }
  /** machine that makes the faults of the others */
  readonly operator = new Machine('operator')
  readonly replicaNames: readonly string[]
  readonly agents: SimulatedAgent[] = []
  readonly agentIds: AgentId[] = []
  readonly #options: WorldOptions
  readonly #replicas = new Map<string, SimulatedReplica>()
  readonly #codeChance: Seeded
  readonly #agentChance: Seeded
  readonly #freeHosts: string[] = []
  #serials = 0
  #hosts = 0
  #pods = 0

  constructor(options: WorldOptions) {
    const seeds = new Seeded(options.seed)
    const next = () => new Seeded(seeds.int(2 ** 32))
    this.#options = options
    this.chance = next()
    this.#codeChance = next()
    this.#agentChance = next()
    this.time = new VirtualTime(() => this.#codeChance.fraction())
    this.network = new SimulatedNetwork(this.time, next())
    this.ledger = new Ledger(this.time)
    this.discovery = new SimulatedDiscovery({ time: this.time, chance: this.chance })
    this.replicaNames = Array.from({ length: options.replicas }, (_, i) => `kas-${i}`)
  }

  /** Living replicas, in the order of their names. */
  get replicas(): readonly [SimulatedReplica, ...SimulatedReplica[]] {
    const living = this.replicaNames.flatMap((name) => this.#replicas.get(name) ?? [])
    return living as [SimulatedReplica, ...SimulatedReplica[]]
  }

  start(): void {
    for (const name of this.replicaNames) {
      this.time.post(this.operator, this.chance.fraction() * startMs, () => this.#startReplica(name, this.#newHost()))
    }
    for (let i = 0; i < this.#options.agents; i++) {
      const isSecond = i > 0 && this.chance.chance(secondPods)
      const agentId = isSecond ? this.chance.pick(this.agentIds) : (BigInt(i + 1) as AgentId)
      const served = this.chance.chance(partialPods) ? [methods.list] : [methods.list, methods.change]
      this.#startAgent(agentId, served)
    }
  }

  /**
   * Ends a replica, which comes back under its name.
   *
   * @returns ends its absence at once; undefined if no replica can be spared
   */
  stopReplica(how: 'crash' | 'power' | 'leave'): (() => void) | undefined {
    if (this.#replicas.size < 2) return undefined
    const replica = this.chance.pick(this.replicas)
    const { name, machine, host } = replica
    if (how === 'leave' && !replica.isServing) return undefined
    this.#replicas.delete(name)
    const end = () => {
      if (machine.state === 'dead') return
      this.time.kill(machine)
      if (how === 'power') return
      this.network.forget(machine)
      this.network.closeAllOf(machine)
    }
    if (how === 'leave') {
      const left = () => void this.time.post(this.operator, 0, end)
      this.time.post(machine, 0, () => void replica.leave().then(left))
    } else end()
    let isBack = false
    const comeBack = () => {
      if (isBack) return
      isBack = true
      end()
      this.network.forget(machine)
      this.network.resetAllOf(machine)
      this.#startReplica(name, this.#nextHost(host))
    }
    this.time.post(this.operator, this.chance.fraction() * absenceMs + (how === 'leave' ? absenceMs : 0), comeBack)
    return comeBack
  }

  /** Ends a pod by a loss of its node's power, and starts it on another node. */
  replaceAgent(): void {
    const agent = this.chance.pick(this.agents)
    this.agents.splice(this.agents.indexOf(agent), 1)
    this.time.kill(agent.machine)
    this.#startAgent(agent.agentId, agent.methods)
  }

  #nextHost(host: string): string {
    if (!this.chance.chance(movingReplicas)) return host
    // an address that another replica had before is as good as a new one
    const next = this.chance.chance(0.5) ? (this.#freeHosts.shift() ?? this.#newHost()) : this.#newHost()
    this.#freeHosts.push(host)
    return next
  }

  #newHost(): string {
    this.#hosts++
    return `192.0.2.${this.#hosts}` // set aside for documentation: no machine's own
  }

  #startReplica(name: string, host: string): void {
    const machine = new Machine(name)
    const { network, discovery, ledger, turbulence } = this
    const components = { machine, network, discovery, ledger, turbulence, chance: this.network.chance }
    const options = { name, host, serial: ++this.#serials, bug: this.#options.bug }
    this.time.post(machine, 0, () => {
      const replica = new SimulatedReplica(components, options)
      this.#replicas.set(name, replica)
      discovery.place(name, host)
      void replica.start()
    })
  }

  #startAgent(agentId: AgentId, served: readonly string[]): void {
    const pod = `agentk-${agentId}-${++this.#pods}`
    const machine = new Machine(pod)
    const { network, ledger } = this
    const chance = this.#agentChance
    const choose = () => {
      const serving = this.replicas.filter(({ isServing }) => isServing)
      return serving.length === 0 ? undefined : `${chance.pick(serving).host}:${ports.agents}`
    }
    const agent = new SimulatedAgent(
      { machine, network, ledger, chance, choose },
      { agentId, pod, methods: served, pings: this.chance.chance(pingingPods) },
    )
    this.agents.push(agent)
    if (!this.agentIds.includes(agentId)) this.agentIds.push(agentId)
    this.time.post(machine, this.chance.fraction() * startMs, () => agent.start())
  }
}

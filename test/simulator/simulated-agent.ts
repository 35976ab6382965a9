import { create } from '@bufbuild/protobuf'
import type { AgentId } from '../../src/call/call.ts'
import { AgentDescriptorSchema } from '../../src/proto/gen/info_pb.ts'
import { connectMethod, decodeConnectResponse, encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import type { Seeded } from '../support/seeded.ts'
import type { Ledger } from './ledger.ts'
import type { SimulatedNetwork } from './simulated-network.ts'
import { type AgentHello, callKey } from './simulated-replica.ts'
import { SimulatedClientSession, type SimulatedClientStream } from './simulated-session.ts'
import type { Machine } from './virtual-time.ts'

export const methods = { list: '/sim.Cluster/List', change: '/sim.Cluster/Change' } as const

export interface SimulatedAgentComponents {
  readonly machine: Machine
  readonly network: SimulatedNetwork
  readonly ledger: Ledger
  readonly chance: Seeded
  /** address of a replica that accepts agents, if there is one: the balancer's choice */
  choose(): string | undefined
}

export interface SimulatedAgentOptions {
  readonly agentId: AgentId
  readonly pod: string
  readonly methods: readonly string[]
  /** sends its kas a PING every 5 s, as our agentk does; a stock one does not */
  readonly pings: boolean
}

const idleTunnels = 2
/** ms */
const dialTimeoutMs = 5000
const redialMs = 1000
const pingMs = 5000
/** duration of most calls, and of slow ones. ms */
const quickMs = 100
const slowMs = 6000
const slowShare = 0.1

/** Returns the agent's answer to a call, message by message. */
export function answerTo(callId: string, agentId: AgentId): string[] {
  const count = 1 + (Number(callId.slice(1)) % 3)
  return Array.from({ length: count }, (_, i) => `${callId} of ${agentId} ${i}`)
}

/** One pod of agentk: keeps idle tunnels at one replica, and answers calls. */
export class SimulatedAgent {
  readonly machine: Machine
  readonly agentId: AgentId
  readonly methods: readonly string[]
  readonly #components: SimulatedAgentComponents
  readonly #options: SimulatedAgentOptions
  #session: SimulatedClientSession | undefined
  #idle = 0

  constructor(components: SimulatedAgentComponents, options: SimulatedAgentOptions) {
    this.machine = components.machine
    this.agentId = options.agentId
    this.methods = options.methods
    this.#components = components
    this.#options = options
  }

  /** Connects, and again after each end of the connection. */
  start(): void {
    void this.#connect()
  }

  /** Breaks its connection. */
  hangUp(): void {
    this.#session?.destroy()
  }

  async #connect(): Promise<void> {
    const { network, machine, choose, chance } = this.#components
    const address = choose()
    const again = () => setTimeout(() => this.start(), redialMs * (0.5 + chance.fraction()))
    if (!address) return void again()
    const limit = new AbortController()
    const timer = setTimeout(() => limit.abort(new Error('no answer in time')), dialTimeoutMs)
    try {
      const session = new SimulatedClientSession(await network.dial(machine, address, limit.signal))
      this.#session = session
      this.#idle = 0
      const { agentId, pod } = this.#options
      session.wire.hello({ session, agentId, pod } satisfies AgentHello)
      session.onDraining(again) // the streams of this one go on
      this.#fill(session)
      if (this.#options.pings) this.#ping(session)
    } catch {
      again()
    } finally {
      clearTimeout(timer)
    }
  }

  #ping(session: SimulatedClientSession): void {
    setTimeout(() => {
      if (session.destroyed) return
      const timer = setTimeout(() => session.destroy(), pingMs)
      session.ping().then(
        () => {
          clearTimeout(timer)
          this.#ping(session)
        },
        () => clearTimeout(timer),
      )
    }, pingMs)
  }

  #fill(session: SimulatedClientSession): void {
    while (this.#session === session && !session.draining && this.#idle < idleTunnels) {
      this.#idle++
      void this.#serve(session, session.open({ method: connectMethod }))
    }
  }

  async #serve(session: SimulatedClientSession, stream: SimulatedClientStream): Promise<void> {
    const services = this.methods.map((path) => {
      const [, name = '', method = ''] = path.split('/')
      return { name, methods: [{ name: method }] }
    })
    stream.send(encodeConnectRequest.descriptor(create(AgentDescriptorSchema, { services })))
    const messages = stream.messages[Symbol.asyncIterator]()
    const first = await messages.next()
    if (this.#session === session) this.#idle--
    this.#fill(session)
    if (first.done) return
    const request = decodeConnectResponse(first.value)
    if (request.kind !== 'requestInfo') throw new Error(`a call began with ${request.kind}`)
    const callId = request.meta[callKey]?.[0] ?? ''
    this.#components.ledger.delivered(callId, this.#options.pod)
    for (;;) {
      const next = await messages.next()
      if (next.done) return // the call was given up
      if (decodeConnectResponse(next.value).kind === 'closeSend') break
    }
    await this.#answer(stream, callId)
  }

  async #answer(stream: SimulatedClientStream, callId: string): Promise<void> {
    const { chance } = this.#components
    const ms = chance.fraction() * (chance.chance(slowShare) ? slowMs : quickMs)
    await new Promise<void>((resolve) => setTimeout(resolve, ms))
    stream.send(encodeConnectRequest.header({ served: [this.#options.pod] }))
    for (const text of answerTo(callId, this.agentId)) {
      const data = Buffer.from(text)
      stream.send(data, encodeConnectRequest.messageHead(data.length))
      await new Promise<void>((resolve) => setTimeout(resolve, chance.fraction() * quickMs))
    }
    stream.send(encodeConnectRequest.trailer({}))
    stream.end()
  }
}

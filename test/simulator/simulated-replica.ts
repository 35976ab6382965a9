import { type AgentId, type Call, type Forward, noMetadata } from '../../src/call/call.ts'
import { kasCaller } from '../../src/call/caller.ts'
import type { dialReplica } from '../../src/kas/peers/dial-replica.ts'
import { tunnelKey, withoutOwnKeys } from '../../src/kas/peers/hand-over-metadata.ts'
import { Links } from '../../src/kas/peers/links.ts'
import { deliver } from '../../src/kas/router/delivery.ts'
import { Router } from '../../src/kas/router/router.ts'
import { HandedOverCalls } from '../../src/kas/servers/replicas/handed-over-calls.ts'
import { AgentConnection } from '../../src/kas/tunnels/agent-connection.ts'
import { serveConnect } from '../../src/kas/tunnels/connect.ts'
import { Descriptions } from '../../src/kas/tunnels/descriptions.ts'
import { PublishedConnections } from '../../src/kas/tunnels/published-connections.ts'
import { TunnelRegistry } from '../../src/kas/tunnels/tunnel-registry.ts'
import { monotonicClock } from '../../src/lib/clock.ts'
import { KasError } from '../../src/lib/errors.ts'
import { createLogger } from '../../src/lib/log.ts'
import { noTracer } from '../../src/lib/tracing/tracer.ts'
import type { InstanceId, Membership } from '../../src/membership/membership.ts'
import type { ClientSession } from '../../src/proto/grpc/client-session.ts'
import { laneMethod } from '../../src/proto/grpc/lane-frames.ts'
import type { CallHandler } from '../../src/proto/grpc/server-lane.ts'
import type { Handler, ServerStream } from '../../src/proto/grpc/server-stream.ts'
import { createMembership } from '../support/membership.ts'
import type { Seeded } from '../support/seeded.ts'
import type { Ledger } from './ledger.ts'
import type { PlantedBug } from './planted-bugs.ts'
import type { SimulatedDiscovery } from './simulated-discovery.ts'
import { SimulatedGossip, type Turbulence } from './simulated-gossip.ts'
import { ports, type SimulatedNetwork, type WireEnd } from './simulated-network.ts'
import { SimulatedClientSession, type SimulatedClientStream, SimulatedServerSession } from './simulated-session.ts'
import { type Machine, machineClock } from './virtual-time.ts'

export interface SimulatedReplicaComponents {
  readonly machine: Machine
  readonly network: SimulatedNetwork
  readonly discovery: SimulatedDiscovery
  readonly ledger: Ledger
  readonly chance: Seeded
  readonly turbulence: Turbulence
}

export interface SimulatedReplicaOptions {
  readonly name: string
  readonly host: string
  /** number of this one among all replicas that were ever started */
  readonly serial: number
  readonly bug: PlantedBug | undefined
}

/** First message of a replica on a connection to 8155; the certificate's key replaces TLS. */
interface ReplicaHello {
  readonly session: SimulatedClientSession
  readonly instance: InstanceId
  readonly publicKeyHash: string
  welcome(publicKeyHash: string): void
}

/** First message of an agent on a connection to 8150. */
export interface AgentHello {
  readonly session: SimulatedClientSession
  readonly agentId: AgentId
  readonly pod: string
}

/** as in src/kas/peers/dial-replica.ts. ms */
const dialTimeoutMs = 2000
/** as in src/kas/servers/agents/agents-server.ts. ms */
const checkIntervalMs = 250
/** time for which a replica that leaves still accepts calls. ms */
const leaveGraceMs = 1000

export const callKey = 'x-call'
const log = createLogger({ level: 'silent' })
const observer = { routed: () => undefined, timedOut: () => undefined }

/** One kas: its membership, router, hand-over and tunnels are the real code, on a simulated network. */
export class SimulatedReplica {
  readonly name: string
  readonly host: string
  readonly machine: Machine
  readonly membership: Membership
  readonly tunnels = new TunnelRegistry({ clock: monotonicClock })
  /** forward as the servers `kubernetes` and `rails` call it */
  readonly forward: Forward
  isServing = false
  readonly #components: SimulatedReplicaComponents
  readonly #options: SimulatedReplicaOptions
  readonly #publicKeyHash: string
  readonly #links: Links
  readonly #router: Router
  readonly #handOvers: HandedOverCalls
  readonly #descriptions = new Descriptions()
  readonly #published: PublishedConnections
  readonly #agents = new Set<AgentConnection>()
  /** sessions to peers */
  readonly #sessions = new Set<SimulatedClientSession>()
  readonly #checkedVersions = new Map<InstanceId, number>()

  constructor(components: SimulatedReplicaComponents, options: SimulatedReplicaOptions) {
    const { name, host, serial, bug } = options
    this.name = name
    this.host = host
    this.machine = components.machine
    this.#components = components
    this.#options = options
    this.#publicKeyHash = serial.toString(16).padStart(64, '0')
    this.membership = this.#createMembership()
    const identity = { certificatePem: '', keyPem: '', publicKeyHash: this.#publicKeyHash }
    const clock = machineClock(components.network.time, components.machine)
    this.#links = new Links({ membership: this.membership, identity, log, dial: this.#dial, tracer: noTracer, clock })
    this.#router = new Router({ tunnels: this.tunnels, observer, links: this.#links, clock })
    this.#handOvers = new HandedOverCalls({ tunnels: this.tunnels, tracer: noTracer })
    this.#published = new PublishedConnections({ row: this.membership, log })
    const { forward } = this.#router
    this.forward =
      bug === 'unsafe-replayed' ? (call) => deliver(forward)({ ...call, safety: 'safe' }) : deliver(forward)
  }

  #createMembership(): Membership {
    const { discovery, machine, network } = this.#components
    const { name, host, serial, bug } = this.#options
    const instance = (bug === 'instance-ignored' ? name : `${name}#${serial}`) as InstanceId
    const gossipOptions = { instance, host, bug }
    const knownRow = (other: InstanceId) => this.membership.row(other)
    return createMembership(
      {
        name,
        listen: { host, port: ports.gossip },
        replica: { port: 0 },
        publicKeyHash: this.#publicKeyHash,
        kasVersion: `v18.5.${network.time.now > 0 ? 1 : 0}`,
      },
      {
        log,
        sources: [discovery.sourceFor(machine)],
        createGossip: (components) =>
          new SimulatedGossip({ ...this.#components, ...components, knownRow }, gossipOptions),
      },
    )
  }

  get agents(): ReadonlySet<AgentConnection> {
    return this.#agents
  }

  /** Lanes to peers, also idle ones. */
  get lanes(): readonly SimulatedClientStream[] {
    const streams = Array.from(this.#sessions).flatMap((session) => [...session.streams])
    return streams.filter(({ method }) => method === laneMethod)
  }

  /** Starts it as src/kas/peering.ts does. */
  async start(): Promise<void> {
    const { network, machine } = this.#components
    const listen = (port: number, accept: (wire: WireEnd) => (hello: unknown) => void) =>
      network.listen(`${this.host}:${port}`, {
        machine,
        accept: (wire) => {
          wire.onHello = accept(wire)
        },
      })
    listen(ports.replicas, (wire) => (hello) => this.#acceptReplica(wire, hello as ReplicaHello))
    this.membership.setReplicaPort(ports.replicas)
    this.membership.onChange(() => this.#checkRows())
    await this.membership.start()
    await this.#links.start()
    listen(ports.agents, (wire) => (hello) => this.#acceptAgent(wire, hello as AgentHello))
    this.#checkAgents()
    this.membership.setState('serving')
    this.isServing = true
  }

  /** Leaves as after SIGTERM; resolves when it has ended. */
  async leave(): Promise<void> {
    this.isServing = false
    this.membership.setState('leaving')
    for (const connection of this.#agents) connection.retire()
    await new Promise<void>((resolve) => setTimeout(resolve, leaveGraceMs))
    this.#handOvers.close()
    await new Promise<void>((resolve) => setTimeout(resolve, leaveGraceMs))
    await this.#links.stop()
    await this.membership.stop()
  }

  #checkAgents(): void {
    let expected = performance.now() + checkIntervalMs
    setInterval(() => {
      const now = performance.now()
      const lateMs = Math.max(0, now - expected)
      expected = now + checkIntervalMs
      for (const connection of this.#agents) connection.check(now, lateMs)
    }, checkIntervalMs)
  }

  /** Checks that this replica's rows are those that the owners have published. */
  #checkRows(): void {
    const { membership } = this
    for (const row of membership.rows()) {
      if (row.instance === membership.instance || this.#checkedVersions.get(row.instance) === row.version) continue
      this.#checkedVersions.set(row.instance, row.version)
      this.#components.ledger.rowSeen(membership.instance, row)
    }
  }

  // 8155

  #dial: typeof dialReplica = async ({ address, publicKeyHash }, signal) => {
    const { network, machine } = this.#components
    const limit = new AbortController()
    const abort = () => limit.abort(new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }))
    const timer = setTimeout(abort, dialTimeoutMs)
    signal.addEventListener('abort', abort, { once: true })
    try {
      const wire = await network.dial(machine, address, limit.signal)
      const session = new SimulatedClientSession(wire)
      const welcomed = Promise.withResolvers<string>()
      limit.signal.addEventListener('abort', () => welcomed.reject(limit.signal.reason))
      void session.closed.then(() => welcomed.reject(new Error('the connection ended')))
      const hello: ReplicaHello = {
        session,
        instance: this.membership.instance,
        publicKeyHash: this.#publicKeyHash,
        welcome: welcomed.resolve,
      }
      wire.hello(hello)
      try {
        if ((await welcomed.promise) !== publicKeyHash) throw new Error('another key than the row says')
      } catch (error) {
        wire.close()
        throw error
      }
      this.#sessions.add(session)
      void session.closed.then(() => this.#sessions.delete(session))
      return session as unknown as ClientSession
    } catch (cause) {
      throw new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }, { cause })
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
    }
  }

  #acceptReplica(wire: WireEnd, { session, instance, publicKeyHash, welcome }: ReplicaHello): void {
    wire.send(() => welcome(this.#publicKeyHash))
    const { ledger } = this.#components
    const isKnown = () => this.membership.rows().some(({ head }) => head.publicKeyHash === publicKeyHash)
    const serve = this.#options.bug === 'holder-forwards' ? this.#serveOrForward : this.#handOvers.serve
    const handOver: CallHandler = (call) => {
      if (!isKnown()) return refuseStranger(call)
      ledger.handedOver(call.metadata[callKey]?.[0] ?? '', instance, this.membership.instance)
      return serve(call)
    }
    const lane: Handler = (stream) => this.#handOvers.serveLane(stream, handOver)
    new SimulatedServerSession(wire, session, (method) => {
      if (method !== laneMethod) throw new Error(`${method} is called by no replica`)
      return isKnown() ? lane : refuseStranger
    })
  }

  /** Makes a planted bug: passes a call for an absent agent on to another replica. */
  #serveOrForward: CallHandler = async (stream) => {
    const agentId = BigInt(stream.metadata['kas-agent-id']?.[0] ?? '') as AgentId
    if (this.tunnels.holds(agentId)) return await this.#handOvers.serve(stream)
    const { method, messages, signal } = stream
    const metadata = withoutOwnKeys(stream.metadata)
    const reply = await this.#router.forward({
      agentId,
      method,
      metadata,
      messages,
      safety: 'unsafe',
      caller: kasCaller,
      signal,
    })
    stream.sendInterim({ [tunnelKey]: ['ready'] })
    stream.sendMetadata((await reply.metadata) ?? noMetadata)
    for await (const message of reply.messages) void stream.send(message)
    const { error, trailers } = await reply.done
    if (error) throw error
    return trailers
  }

  // 8150

  #acceptAgent(wire: WireEnd, { session: client, agentId, pod }: AgentHello): void {
    const agent = { id: agentId, name: pod, project: { id: 1n, path: 'platform/clusters' } }
    const components = {
      tunnels: this.tunnels,
      descriptions: this.#descriptions,
      published: this.#published,
      tracer: noTracer,
    }
    const session = new SimulatedServerSession(
      wire,
      client,
      () => (stream: ServerStream) => serveConnect(components, { agent, connection, stream }),
    )
    const connection = new AgentConnection(session as never, pod, performance.now())
    this.#agents.add(connection)
    void session.closed.then(() => this.#agents.delete(connection))
  }
}

const refuseStranger: CallHandler = async (stream) => {
  stream.addTrailers({ [tunnelKey]: ['unknown'] })
  throw new KasError({ code: 'UNAUTHENTICATED', detail: 'no row has this key yet' })
}

/** Reads a reply to its end. */
export async function readAnswer(forward: Forward, call: Call): Promise<{ error?: KasError; messages: string[] }> {
  const messages: string[] = []
  try {
    const reply = await forward(call)
    for await (const message of reply.messages) messages.push(Buffer.from(message).toString())
    const { error } = await reply.done
    return { ...(error ? { error } : {}), messages }
  } catch (error) {
    return { error: KasError.from(error), messages }
  }
}

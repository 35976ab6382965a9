import { KasError } from '../../src/lib/errors.ts'
import type { GossipComponents, GossipNetwork } from '../../src/membership/network/gossip.ts'
import type { DialResult } from '../../src/membership/protocol/reconciler.ts'
import type { InstanceId, Row, RowSnapshot } from '../../src/membership/table/row.ts'
import { encodeGossip } from '../../src/membership/table/row-codec.ts'
import type { Seeded } from '../support/seeded.ts'
import type { Ledger } from './ledger.ts'
import type { PlantedBug } from './planted-bugs.ts'
import { ports, Refused, type SimulatedNetwork, type WireEnd } from './simulated-network.ts'
import type { Machine } from './virtual-time.ts'

/** Faults of published messages on their way; rows and connections use TCP. */
export interface Turbulence {
  /** probability for one message to one peer, 0 to 1 */
  loss: number
  duplicates: number
  /** delayed by up to `maxLateMs`: others overtake them */
  late: number
  maxLateMs: number
}

export interface SimulatedGossipComponents extends GossipComponents {
  readonly machine: Machine
  readonly network: SimulatedNetwork
  readonly ledger: Ledger
  readonly chance: Seeded
  readonly turbulence: Turbulence
  /** another instance's row, as this replica knows it */
  knownRow(instance: InstanceId): Row | undefined
}

export interface SimulatedGossipOptions {
  readonly instance: InstanceId
  readonly host: string
  readonly bug: PlantedBug | undefined
}

interface Published {
  readonly id: string
  readonly author: InstanceId
  readonly bytes: Uint8Array
}

interface Connection {
  readonly wire: WireEnd
  readonly peer: InstanceId
  readonly host: string
  readonly outbound: boolean
  readonly openedAt: number
  /** published messages reach the peer */
  subscribed: boolean
  readonly onLost: Set<() => void>
}

interface Hello {
  readonly from: SimulatedGossip
  welcome(instance: InstanceId): void
}

/**
 * limit in which a second connection of the same pair counts as a dial of both sides, as in
 * src/membership/network/gossip.ts. ms
 */
const simultaneousMs = 3000
/** longest time from a connection to the first message on it. ms */
const subscriptionMs = 50
/** share of peers to which others' messages are passed on, 0 to 1 */
const relayed = 0.4

/** The gossip's network, which behaves as src/membership/network/gossip.ts. */
export class SimulatedGossip implements GossipNetwork {
  readonly instance: InstanceId
  readonly #components: SimulatedGossipComponents
  readonly #options: SimulatedGossipOptions
  readonly #connections = new Map<InstanceId, Set<Connection>>()
  readonly #seen = new Set<string>()
  #published = 0
  #writtenVersion = 0
  #running = false

  constructor(components: SimulatedGossipComponents, options: SimulatedGossipOptions) {
    this.#components = components
    this.#options = options
    this.instance = options.instance
  }

  get port(): number {
    return ports.gossip
  }

  async start(): Promise<void> {
    const { network, machine } = this.#components
    this.#running = true
    network.listen(`${this.#options.host}:${ports.gossip}`, {
      machine,
      accept: (wire) => {
        wire.onHello = (hello) => this.#greeted(wire, hello as Hello)
      },
    })
  }

  async stop(): Promise<void> {
    this.#running = false
    for (const connection of this.#all()) connection.wire.close()
  }

  publish(bytes: Uint8Array): void {
    if (!this.#running) return
    const row = this.#components.snapshot()
    if (row.version !== this.#writtenVersion) this.#components.ledger.rowWritten(row)
    this.#writtenVersion = row.version
    this.#send({ id: `${this.instance} ${this.#published++}`, author: this.instance, bytes }, 1)
  }

  pull(owner: InstanceId, signal: AbortSignal): Promise<RowSnapshot> {
    const { knownRow } = this.#components
    const { promise, resolve, reject } = Promise.withResolvers<RowSnapshot>()
    const [connection] = this.#connections.get(owner) ?? []
    const isDropped = this.#options.bug === 'pull-dropped' && knownRow(owner)
    if (!connection || isDropped) throw new KasError({ code: 'CANCELLED', detail: 'no connection to the replica' })
    const lost = () => reject(new KasError({ code: 'CANCELLED', detail: 'the connection ended' }))
    connection.onLost.add(lost)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    const { wire } = connection
    wire.send(() => {
      const { snapshot, ledger } = ownerOf(wire.peer).#components
      const row = snapshot()
      ledger.rowWritten(row)
      wire.peer.send(() => resolve(row))
    })
    return promise.finally(() => connection.onLost.delete(lost))
  }

  cut(instance: InstanceId): void {
    for (const { wire } of [...(this.#connections.get(instance) ?? [])]) wire.close()
  }

  isConnected(instance: InstanceId): boolean {
    return this.#connections.has(instance)
  }

  connected(): readonly InstanceId[] {
    return [...this.#connections.keys()]
  }

  hostOf(instance: InstanceId): string | undefined {
    const connections = [...(this.#connections.get(instance) ?? [])]
    return (connections.find(({ outbound }) => outbound) ?? connections[0])?.host
  }

  async dial(address: string, signal: AbortSignal): Promise<DialResult> {
    const { network, machine } = this.#components
    const { promise, resolve, reject } = Promise.withResolvers<DialResult>()
    let wire: WireEnd
    try {
      wire = await network.dial(machine, address, signal)
    } catch (error) {
      return error instanceof Refused ? { kind: 'refused' } : { kind: 'failed', error }
    }
    const end = wire
    const host = address.slice(0, address.lastIndexOf(':'))
    end.onClose = () => reject(new Error('the connection ended'))
    signal.addEventListener('abort', () => {
      reject(signal.reason)
      if (!this.#all().some((connection) => connection.wire === end)) end.close()
    })
    const welcome = (instance: InstanceId) => {
      if (signal.aborted) return
      if (instance !== this.instance) this.#add({ wire: end, peer: instance, host, outbound: true })
      else end.close()
      resolve(instance === this.instance ? { kind: 'self' } : { kind: 'member', instance })
    }
    end.hello({ from: this, welcome } satisfies Hello)
    return promise.catch((error: unknown): DialResult => ({ kind: 'failed', error }))
  }

  #greeted(wire: WireEnd, { from, welcome }: Hello): void {
    const peer = from.instance
    if (!this.#running) {
      wire.close()
      return
    }
    wire.send(() => welcome(this.instance))
    if (peer === this.instance) return
    const { now } = this.#components.network.time
    for (const old of [...(this.#connections.get(peer) ?? [])])
      if (now - old.openedAt > simultaneousMs) old.wire.close()
    this.#add({ wire, peer, host: from.#options.host, outbound: false })
  }

  #add(init: Pick<Connection, 'wire' | 'peer' | 'host' | 'outbound'>): void {
    const { network, machine, chance, connected } = this.#components
    const connection = { ...init, openedAt: network.time.now, subscribed: false, onLost: new Set<() => void>() }
    const { wire, peer } = connection
    gossips.set(wire, this)
    wire.onClose = () => this.#remove(connection)
    const known = this.#connections.get(peer)
    if (known) known.add(connection)
    else {
      this.#connections.set(peer, new Set([connection]))
      connected(peer)
    }
    network.time.post(machine, chance.fraction() * subscriptionMs, () =>
      wire.send(() => at(wire.peer, (other) => other.#subscribed(wire.peer))),
    )
  }

  #subscribed(wire: WireEnd): void {
    const connection = this.#all().find((one) => one.wire === wire)
    if (!connection) return
    connection.subscribed = true
    this.#components.subscribed()
  }

  #remove(connection: Connection): void {
    const { peer, openedAt, onLost } = connection
    const connections = this.#connections.get(peer)
    if (!connections?.delete(connection)) return
    for (const lost of onLost) lost()
    if (connections.size === 0) {
      this.#connections.delete(peer)
      this.#components.disconnected(peer)
      if (this.#options.bug === 'two-writers') this.#emptyRowOf(peer)
    }
    const { now } = this.#components.network.time
    if (now - openedAt >= simultaneousMs) for (const { wire } of [...connections]) wire.close()
  }

  #emptyRowOf(peer: InstanceId): void {
    const row = this.#components.knownRow(peer)
    if (!row || !this.#running) return
    const removed = [...row.connections.keys(), ...row.registrations.keys()]
    const delta = { from: row.version, to: row.version + 1, removed, connections: [], registrations: [] }
    const bytes = encodeGossip(peer, { kind: 'delta', delta })
    this.#send({ id: `${peer} by ${this.instance} ${this.#published++}`, author: peer, bytes }, 1)
  }

  #all(): Connection[] {
    return [...this.#connections.values()].flatMap((connections) => [...connections])
  }

  /** @param share - share of the peers, 0 to 1 */
  #send(message: Published, share: number): void {
    const { chance, turbulence, machine, network } = this.#components
    this.#seen.add(message.id)
    for (const [peer, connections] of this.#connections) {
      if (peer === message.author) continue
      const wire = [...connections].find(({ subscribed }) => subscribed)?.wire
      if (!wire || !chance.chance(share) || chance.chance(turbulence.loss)) continue
      const lateMs = chance.chance(turbulence.late) ? chance.fraction() * turbulence.maxLateMs : 0
      const send = (again: boolean) => () => wire.send(() => at(wire.peer, (other) => other.#receive(message, again)))
      if (lateMs > 0) network.time.post(machine, lateMs, send(false))
      else send(false)()
      if (chance.chance(turbulence.duplicates)) {
        network.time.post(machine, chance.fraction() * turbulence.maxLateMs, send(true))
      }
    }
  }

  /** @param again - gossipsub has forgotten that the message came before */
  #receive(message: Published, again: boolean): void {
    if (!this.#running || (this.#seen.has(message.id) && !again)) return
    this.#seen.add(message.id)
    const pass = this.#components.received(message.author, message.bytes)
    if (pass && !again) this.#send(message, relayed)
  }
}

const gossips = new WeakMap<WireEnd, SimulatedGossip>()

function at(wire: WireEnd, action: (gossip: SimulatedGossip) => void): void {
  const gossip = gossips.get(wire)
  if (gossip) action(gossip)
}

function ownerOf(wire: WireEnd): SimulatedGossip {
  const gossip = gossips.get(wire)
  if (!gossip) throw new Error('a row was asked of a connection that is none')
  return gossip
}

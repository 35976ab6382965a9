import { type Message, TopicValidatorResult } from '@libp2p/gossipsub'
import type { Connection, MultiaddrConnection, PrivateKey, Stream } from '@libp2p/interface'
import { peerIdFromPrivateKey, peerIdFromString } from '@libp2p/peer-id'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { abortable } from '../../lib/signals.ts'
import type { Network } from '../protocol/gossip-rules.ts'
import type { MembershipMetrics } from '../protocol/observer.ts'
import type { DialResult } from '../protocol/reconciler.ts'
import type { MembershipTimers } from '../protocol/timers.ts'
import type { InstanceId, RowSnapshot } from '../table/row.ts'
import { FirstBytes } from './first-bytes.ts'
import { hostOf, type ListenAddress, toMultiaddr } from './gossip-address.ts'
import {
  createGossipNode,
  createPrivateKey,
  type GossipNode,
  type Intake,
  instanceOf,
  tableTopic,
} from './gossip-node.ts'
import { InboundLimit } from './inbound-limit.ts'
import { protocolsOf } from './noise.ts'
import { readRow, rowProtocol, sendRow } from './row-stream.ts'

/** Bound of the wait at a stop until members have received the last message and closed: a frozen one never does. ms */
const goodbyeMs = 2000
/** bound of the running pulls of one member, on a connection */
const maxRowStreams = 4
/** a second connection of the same pair within this time comes from dials of both sides, and both stay */
const simultaneousMs = 3000

export interface GossipComponents {
  readonly clock: Clock
  readonly metrics: MembershipMetrics
  /** returns the own row, for a member that asks for it */
  snapshot(): RowSnapshot
  /** called with a message that `author` has signed; returns true if it is to be passed on */
  received(author: InstanceId, message: Uint8Array): boolean
  connected(instance: InstanceId): void
  disconnected(instance: InstanceId): void
  /** called if an instance receives published messages from now on */
  subscribed(): void
  /** true: discovery lists an address with this host */
  isListed(host: string): boolean
}

export interface GossipOptions {
  readonly secret: Uint8Array
  readonly previousSecret?: Uint8Array | undefined
  readonly listen: ListenAddress
}

/** Network of the gossip, as the membership uses it. */
export type GossipNetwork = Pick<Gossip, keyof Gossip>

/** Network of the gossip on libp2p: connections, admission and messages (doc/internals/membership.md). */
export class Gossip implements Network {
  readonly instance: InstanceId
  readonly #components: GossipComponents
  readonly #options: GossipOptions
  readonly #timers: MembershipTimers
  readonly #privateKey: PrivateKey
  readonly #limit: InboundLimit
  /** protocols of incoming connections */
  readonly #protocols: readonly string[]
  readonly #pending = new Map<MultiaddrConnection, () => void>()
  readonly #banned = new Map<InstanceId, () => void>()
  /** ms of `performance.now`: libp2p's own times are of the wall clock, which may be set meanwhile */
  readonly #openedAt = new WeakMap<Connection, number>()
  #node: GossipNode | undefined
  #publishing: Promise<unknown> = Promise.resolve()

  constructor(components: GossipComponents, options: GossipOptions, timers: MembershipTimers) {
    this.#components = components
    this.#options = options
    this.#timers = timers
    this.#limit = new InboundLimit(components.clock)
    this.#protocols = protocolsOf(options.secret, options.previousSecret)
    this.#privateKey = createPrivateKey()
    this.instance = peerIdFromPrivateKey(this.#privateKey).toString() as InstanceId
  }

  /** @throws if it cannot listen on the address */
  async start(): Promise<void> {
    const node = await this.#createNode()
    this.#node = node
    const { pubsub } = node.services
    pubsub.topicValidators.set(tableTopic, (_, message) => this.#validate(message))
    pubsub.addEventListener('subscription-change', ({ detail }) => {
      if (detail.subscriptions.some(({ topic, subscribe }) => subscribe && topic === tableTopic)) {
        this.#components.subscribed()
      }
    })
    node.addEventListener('peer:connect', ({ detail }) => this.#components.connected(instanceOf(detail)))
    node.addEventListener('peer:disconnect', ({ detail }) => this.#components.disconnected(instanceOf(detail)))
    node.addEventListener('connection:open', ({ detail }) => void this.#openedAt.set(detail, performance.now()))
    node.addEventListener('connection:close', ({ detail }) => this.#closed(detail))
    await node.handle(rowProtocol, (stream) => this.#serveRow(stream), {
      maxInboundStreams: maxRowStreams,
      maxOutboundStreams: maxRowStreams,
    })
    await node.start()
    pubsub.subscribe(tableTopic)
  }

  /** Sends the last published message before the connections end. */
  async stop(): Promise<void> {
    const node = this.#node
    if (!node) return
    this.#node = undefined
    const late = Promise.withResolvers<void>()
    const cancel = this.#components.clock.after(goodbyeMs, () => {
      late.resolve()
      for (const connection of node.getConnections()) connection.abort(new Error('it did not say good-bye'))
    })
    await Promise.race([this.#publishing, late.promise])
    await node.stop()
    cancel()
    this.#limit.stop()
    for (const cancel of this.#banned.values()) cancel()
  }

  /** Port on which it listens, once started. */
  get port(): number {
    for (const address of this.#node?.getMultiaddrs() ?? []) {
      const port = address.getComponents().find(({ name }) => name === 'tcp')?.value
      if (port !== undefined) return Number(port)
    }
    return 0
  }

  publish(message: Uint8Array): void {
    const publish = this.#node?.services.pubsub.publish(tableTopic, message)
    // lost messages show in the next version
    if (publish) this.#publishing = Promise.allSettled([this.#publishing, publish])
  }

  async pull(owner: InstanceId, signal: AbortSignal): Promise<RowSnapshot> {
    const connection = this.#connections(owner).find(({ status }) => status === 'open')
    if (!connection) throw new KasError({ code: 'CANCELLED', detail: 'no connection to the replica' })
    const stream = await connection.newStream(rowProtocol, { signal })
    try {
      await stream.close({ signal })
      return await abortable(readRow(stream, owner), signal)
    } finally {
      if (stream.status !== 'closed') stream.abort(new Error('done'))
    }
  }

  cut(instance: InstanceId, reason: 'dead' | 'flood'): void {
    if (reason === 'flood' && !this.#banned.has(instance)) {
      const cancel = this.#components.clock.after(this.#timers.banMs, () => this.#banned.delete(instance))
      this.#banned.set(instance, cancel)
    }
    for (const connection of this.#connections(instance)) connection.abort(new Error(reason))
  }

  isConnected(instance: InstanceId): boolean {
    return this.#connections(instance).length > 0
  }

  connected(): readonly InstanceId[] {
    return this.#node?.getPeers().map(instanceOf) ?? []
  }

  /** Host at the remote end; that of the dialled connection, if there is one. */
  hostOf(instance: InstanceId): string | undefined {
    const connections = this.#connections(instance)
    const best = connections.find(({ direction }) => direction === 'outbound') ?? connections[0]
    return best && hostOf(best.remoteAddr)
  }

  /**
   * @param address - `10.0.0.7:8156`
   * @param signal - ends the wait
   */
  async dial(address: string, signal: AbortSignal): Promise<DialResult> {
    const target = toMultiaddr(address)
    if (!target || !this.#node) return { kind: 'failed', error: new Error(`no address: ${address}`) }
    try {
      const connection = await this.#node.dial(target, { signal })
      return { kind: 'member', instance: instanceOf(connection.remotePeer) }
    } catch (error) {
      const { name, code } = error as { name?: string; code?: string }
      if (name === 'InvalidPeerIdError') return { kind: 'self' }
      return code === 'ECONNREFUSED' ? { kind: 'refused' } : { kind: 'failed', error }
    }
  }

  #connections(instance: InstanceId): Connection[] {
    return this.#node?.getConnections(peerIdFromString(instance)) ?? []
  }

  #validate(message: Message): TopicValidatorResult {
    if (message.type !== 'signed') return TopicValidatorResult.Ignore
    const relay = this.#components.received(instanceOf(message.from), message.data)
    // never Reject: the peer that passes it on is not its author
    return relay ? TopicValidatorResult.Accept : TopicValidatorResult.Ignore
  }

  async #serveRow(stream: Stream): Promise<void> {
    const signal = AbortSignal.timeout(this.#timers.pullTimeoutMs)
    try {
      await sendRow(stream, this.#components.snapshot(), signal)
    } catch (error) {
      stream.abort(error as Error) // the peer will ask again
    }
  }

  /**
   * Ends the other connection too, so that the pair connects again. The streams of gossipsub may have been on the
   * closed one, and would not be opened on the other.
   */
  #closed(connection: Connection): void {
    if (this.#isFresh(connection)) return
    const others = this.#connections(instanceOf(connection.remotePeer))
    for (const other of others) other.abort(new Error('its twin has ended'))
  }

  /** True if it may be one of two that were dialled at once. */
  #isFresh(connection: Connection): boolean {
    const now = performance.now()
    return now - (this.#openedAt.get(connection) ?? now) < simultaneousMs
  }

  #admit(connection: Intake): boolean {
    const host = hostOf(connection.remoteAddr)
    const done = this.#limit.admit(host, this.#components.isListed(host))
    if (!done) {
      this.#components.metrics.refused('pending')
      return false
    }
    this.#pending.set(connection, done)
    this.#readFirst(connection)
    connection.addEventListener('close', () => {
      if (this.#proven(connection)) this.#components.metrics.refused('handshake')
    })
    return true
  }

  /** Passes to libp2p only bytes that members send, until the connection has proven to have the secret. */
  #readFirst(connection: Intake): void {
    const first = new FirstBytes(this.#protocols)
    const onData = connection.onData.bind(connection)
    connection.onData = (chunk) => {
      if (!this.#pending.has(connection) || first.accept(chunk)) onData(chunk)
      else connection.abort(new Error('it sends what no member does'))
    }
  }

  /** @returns true: it was pending until now */
  #proven(connection: MultiaddrConnection): boolean {
    this.#pending.get(connection)?.()
    return this.#pending.delete(connection)
  }

  #admitMember(instance: InstanceId, connection: MultiaddrConnection): boolean {
    this.#proven(connection)
    if (this.#banned.has(instance)) {
      this.#components.metrics.refused('banned')
      return false
    }
    // the peer dials again because it has lost the connection that still seems open here
    for (const old of this.#connections(instance)) {
      if (!this.#isFresh(old)) old.abort(new Error('the peer has connected anew'))
    }
    return true
  }

  #createNode(): Promise<GossipNode> {
    return createGossipNode(
      {
        privateKey: this.#privateKey,
        admit: (connection) => this.#admit(connection),
        admitMember: (instance, connection) => this.#admitMember(instance, connection),
        isBanned: (instance) => this.#banned.has(instance),
      },
      { ...this.#options, handshakeMs: this.#timers.handshakeMs },
    )
  }
}

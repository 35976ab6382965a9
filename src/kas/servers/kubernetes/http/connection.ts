import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { AgentId } from '../../../../call/call.ts'
import type { Counter } from '../../../../lib/counter.ts'
import { KasError } from '../../../../lib/errors.ts'
import { remoteOf } from '../../../../lib/host-port.ts'
import { type LingerBounds, Lingering, strangersLingering } from '../../../../lib/lingering.ts'
import type { Holder, Share } from '../../../../lib/shared-total.ts'
import type { ClientAddresses, Origin } from '../../addresses/client-addresses.ts'
import type { HeadMeter } from './head-room.ts'
import type { IdleConnections, Owner } from './idle-connections.ts'

/** Whose callers those are who were let in for what is about no agent: their kept connections have a bound, too. */
export const noAgent = 0n as AgentId

/** Connections of one agent's callers: to so many answers go in pieces, so that each costs less. */
const crowd = 32

/** Memory of a connection; most of it are the buffers of TLS. bytes */
const tlsConnectionBytes = 64 * 1024
const plainConnectionBytes = 8 * 1024

/** Bounds of what clients send behind the last bytes that they get. */
const lingering = {
  stranger: strangersLingering,
  caller: { ms: 5000, bytes: 16 * 1024 * 1024 },
  /** The client may have paused: then the system holds its last bytes. */
  upgraded: { ms: 3_600_000, bytes: 16 * 1024 * 1024 },
} as const

/** Requests that a client may have sent on one connection without an answer yet. */
export const maxPipelinedRequests = 4

/** A request and its answer, as its connection sees them; Exchange is one. */
export interface Running {
  /** its status line is on its way */
  readonly begun: boolean
  /** nothing more of the request can come */
  readonly isRequestRead: boolean
  readonly isChunked: boolean
  /** the client has left, or its request turned out malformed */
  leave(reason: KasError): void
  /** Ends it in order if it has no end of its own. */
  endStream(): void
  readonly leavesEarly: 'watch' | 'log' | undefined
  cut(): void
}

export interface ConnectionComponents {
  readonly idle: IdleConnections
  /** connections of each agent's callers */
  readonly callers: Counter<AgentId>
  readonly addresses: ClientAddresses
}

/**
 * One client's connection and what runs on it. Its end is noticed here, once: node's requests and responses do not
 * report it reliably when they are pipelined.
 */
export class Connection implements Holder {
  readonly socket: Socket
  readonly remote: string | undefined
  readonly origin: Origin
  readonly exchanges = new Set<Running>()
  /** counts heads; undefined: it is none of HTTP any more */
  meter: HeadMeter | undefined
  /** its parser has failed: no other request will come */
  broken = false
  /** close it once nothing runs on it */
  closeWhenIdle = false
  /** a first request is waited for */
  isNew = true
  readonly #addresses: ClientAddresses
  readonly #idle: IdleConnections
  readonly #callers: Counter<AgentId>
  #owner: Owner | undefined
  /** undefined: it is not counted */
  #share: Share | undefined
  /** what begins requests that wait, in their order */
  #waiting: (() => void)[] = []
  /** undefined: it has not begun to close */
  #lingering: Lingering | undefined
  readonly #closeSocket: () => void

  constructor(socket: Socket, { idle, callers, addresses }: ConnectionComponents) {
    this.socket = socket
    this.remote = remoteOf(socket)
    this.#addresses = addresses
    this.origin = addresses.of(this.remote)
    this.#idle = idle
    this.#callers = callers
    this.#closeSocket = socket.destroySoon.bind(socket)
    socket.destroySoon = () => this.end() // node calls it behind a last answer
    socket.once('close', () => {
      idle.delete(this)
      this.#giveMemory()
      if (this.#owner !== undefined) callers.add(this.#owner.agentId, -1)
      for (const exchange of this.exchanges) exchange.leave(new KasError({ code: 'CANCELLED' }))
      this.exchanges.clear()
      this.#waiting = []
    })
  }

  /** kas names to clusters whom requests are from, in place of what the requests say. */
  get forwardsAddress(): boolean {
    return this.#addresses.isOn
  }

  /** Whose bytes come next: those of a body that is not read to its end, or a head. */
  get bodyNow(): 'plain' | 'chunked' | undefined {
    for (const { isRequestRead, isChunked } of this.exchanges)
      if (!isRequestRead) return isChunked ? 'chunked' : 'plain'
    return undefined
  }

  /** Whose a request on it is, as far as fronts that are trusted say. */
  addressOf({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
    if (!this.origin.isFront) return this.origin.address
    return this.#addresses.ofRequest(this.origin, [headers['x-forwarded-for'] ?? []].flat())
  }

  /** whose callers were let in on it first */
  get owner(): Owner | undefined {
    return this.#owner
  }

  /** It is over TLS, and one of many of the same agent's callers: what is written to it at once stays with it. */
  get isOfCrowd(): boolean {
    return this.#owner !== undefined && 'encrypted' in this.socket && this.#callers.of(this.#owner.agentId) > crowd
  }

  /**
   * A caller of this agent was let in. The first owns the connection; the first with a share counts it.
   *
   * @param enterShare - the caller's share of the replica's memory; absent: the connection is not counted yet
   * @throws KasError REPLICA_MEMORY_FULL: it closes after the answer
   */
  letIn(agentId: AgentId, callerKey: string, enterShare?: () => Share): void {
    if (this.socket.destroyed) return
    if (this.#owner === undefined) {
      this.#owner = { agentId, callerKey }
      this.#callers.add(agentId)
    }
    if (enterShare && !this.#share) this.#takeMemory(enterShare())
    for (const begin of this.#waiting.splice(0)) begin()
  }

  /** Makes room by itself only while nothing runs on it. */
  get bufferedBytes(): number {
    return this.#share && this.exchanges.size === 0 ? this.#memoryBytes : 0
  }

  get isIdle(): boolean {
    return this.exchanges.size === 0
  }

  /** Others need the room: it is kept no longer. */
  drop(): void {
    this.#giveMemory()
    this.#closeSocket()
  }

  /**
   * What was written is still sent, and the client has time to take it. No other request is read.
   *
   * @param isUpgraded - the client may have paused
   */
  end(isUpgraded = false): void {
    if (this.#lingering) return
    this.broken = true
    this.meter?.stop()
    const bounds = isUpgraded && !this.closeWhenIdle ? lingering.upgraded : this.#lingerBounds
    this.#lingering = new Lingering(this.socket, bounds, isUpgraded)
    const [, ...behind] = this.exchanges
    for (const exchange of behind) exchange.leave(new KasError({ code: 'CANCELLED' }))
    this.#waiting = []
  }

  get #lingerBounds(): LingerBounds {
    return this.#owner === undefined ? lingering.stranger : lingering.caller
  }

  get #memoryBytes(): number {
    return 'encrypted' in this.socket ? tlsConnectionBytes : plainConnectionBytes
  }

  #takeMemory(share: Share): void {
    if (share.admit(this.#memoryBytes)) {
      this.#share = share
      share.holders.add(this)
      return
    }
    share.leave()
    this.closeWhenIdle = true
    throw new KasError({ code: 'REPLICA_MEMORY_FULL', share: 'callers', limit: share.total.maxBytes })
  }

  #giveMemory(): void {
    const share = this.#share
    this.#share = undefined
    share?.holders.delete(this)
    share?.remove(this.#memoryBytes)
    share?.leave()
  }

  /** Begins the request that was added last: on a connection on which nobody was let in yet, one after the other. */
  serve(begin: () => void): void {
    if (this.#owner !== undefined || this.exchanges.size === 1) begin()
    else this.#waiting.push(begin)
  }

  add(exchange: Running): void {
    this.isNew = false
    this.exchanges.add(exchange)
    this.#idle.delete(this)
  }

  delete(exchange: Running): void {
    this.exchanges.delete(exchange)
    if (!this.socket.destroyed) this.#waiting.shift()?.()
    if (this.closeWhenIdle && this.exchanges.size === 0) {
      this.end()
      this.#lingering?.hurry(this.#lingerBounds.ms)
    }
    if (this.exchanges.size === 0) this.#idle.add(this)
  }

  /** kas leaves. */
  closeIfIdle(): void {
    if (!this.closeWhenIdle || this.isNew || this.exchanges.size > 0) return
    if (this.#lingering) this.#lingering.hurry(this.#lingerBounds.ms)
    else this.#closeSocket()
  }
}

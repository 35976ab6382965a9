import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { AgentId } from '../../../../call/call.ts'
import type { Counter } from '../../../../lib/counter.ts'
import { KasError } from '../../../../lib/errors.ts'
import { remoteOf } from '../../../../lib/host-port.ts'
import { type LingerBounds, Lingering, strangersLingering } from '../../../../lib/lingering.ts'
import type { RoomUser, Share } from '../../../../lib/shared-total.ts'
import type { ClientAddresses, Origin } from '../../addresses/client-addresses.ts'
import type { HeadMeter } from './head-room.ts'
import type { IdleConnections, Owner } from './idle-connections.ts'
import type { PiecewiseReads } from './piecewise-reads.ts'

/** Stands for the agent of callers that use none: their kept connections have a bound, too. */
export const noAgent = 0n as AgentId

/** Connections of one agent's callers from which answers go in pieces, so that each needs less memory. */
const crowd = 32

/** Memory of a connection, mostly buffers of TLS. bytes */
const tlsConnectionBytes = 64 * 1024
const plainConnectionBytes = 8 * 1024

/** Bytes that are parsed at once: of a chunked body, or of the head of an unknown caller. They have 680 chunks at most. */
const pieceBytes = 4 * 1024
/** Bytes of others that are parsed at once: one record of TLS. */
const maxPieceBytes = 16 * 1024
/** Pieces of a head at the most, until it is a whole head as long again: node copies a line with each piece. */
const piecesOfHead = 16

/** Bounds of what clients may send after the last bytes for them. */
const lingering = {
  stranger: strangersLingering,
  caller: { ms: 5000, bytes: 16 * 1024 * 1024 },
  /** The client may have paused: then the operating system keeps the last bytes. */
  upgraded: { ms: 3_600_000, bytes: 16 * 1024 * 1024 },
} as const

/** Requests without an answer that a client may have sent on one connection. */
export const maxPipelinedRequests = 4

/** A request and its answer, as the connection uses them; implemented by Exchange. */
export interface Running {
  /** the status line was sent */
  readonly begun: boolean
  /** the request is complete */
  readonly isRequestRead: boolean
  readonly isChunked: boolean
  /** Ends it: the client has left, or the request was malformed. */
  leave(reason: KasError): void
  /** Ends the answer in order if its length is open. */
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
 * One client's connection and its exchanges. Notices the end of the connection once, because node's requests and
 * responses do not report it reliably when they are pipelined.
 */
export class Connection implements RoomUser {
  readonly socket: Socket
  readonly remote: string | undefined
  readonly origin: Origin
  readonly exchanges = new Set<Running>()
  /** counts heads; undefined: the connection is no longer HTTP */
  meter: HeadMeter | undefined
  /** gives what is read to the parser; undefined: not begun yet */
  reads: PiecewiseReads | undefined
  /** short chunks that were parsed and are not yet paid for */
  shortChunks = 0
  /** the parser has failed: no further request will come */
  broken = false
  /** true: close it once nothing runs on it */
  closeWhenIdle = false
  /** the first request has not come */
  isNew = true
  readonly #addresses: ClientAddresses
  readonly #idle: IdleConnections
  readonly #callers: Counter<AgentId>
  #owner: Owner | undefined
  /** undefined: the connection is not counted */
  #share: Share | undefined
  /** begin functions of waiting requests, in order */
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
    socket.destroySoon = () => this.end() // node calls it after a last answer
    socket.once('close', () => {
      idle.delete(this)
      this.#giveMemory()
      if (this.#owner !== undefined) callers.add(this.#owner.agentId, -1)
      for (const exchange of this.exchanges) exchange.leave(new KasError({ code: 'CANCELLED' }))
      this.exchanges.clear()
      this.#waiting = []
    })
  }

  /** True if kas names the client to clusters, in place of what requests say. */
  get forwardsAddress(): boolean {
    return this.#addresses.isOn
  }

  /** Kind of the bytes that come next: those of an incomplete body; undefined: a head. */
  get bodyNow(): 'plain' | 'chunked' | undefined {
    for (const { isRequestRead, isChunked } of this.exchanges)
      if (!isRequestRead) return isChunked ? 'chunked' : 'plain'
    return undefined
  }

  /** Returns the client of a request, as trusted fronts name it. */
  addressOf({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
    if (!this.origin.isFront) return this.origin.address
    return this.#addresses.ofRequest(this.origin, [headers['x-forwarded-for'] ?? []].flat())
  }

  /** agent and caller that were let in on it first */
  get owner(): Owner | undefined {
    return this.#owner
  }

  /** Bound of the bytes that are parsed next; 0: none before a caller is let in, because strangers' chunks are not paid. */
  get nextBytes(): number {
    const isChunked = this.bodyNow === 'chunked'
    if (this.#owner !== undefined) return isChunked ? pieceBytes : maxPieceBytes
    if (isChunked) return 0
    return Math.max(pieceBytes, Math.floor((this.meter?.bytes ?? 0) / piecesOfHead))
  }

  /** True for one of many TLS connections of the same agent's callers: bytes of a long write stay in memory. */
  get isOfCrowd(): boolean {
    return this.#owner !== undefined && 'encrypted' in this.socket && this.#callers.of(this.#owner.agentId) > crowd
  }

  /**
   * Notes that a caller of this agent was let in. The first one owns the connection; the first one with a share counts
   * it.
   *
   * @param enterShare - enters the caller's share of the replica's memory; absent: the connection is not counted yet
   * @throws KasError REPLICA_MEMORY_FULL: the connection closes after the answer
   */
  letIn(agentId: AgentId, callerKey: string, enterShare?: () => Share): void {
    if (this.socket.destroyed) return
    if (this.#owner === undefined) {
      this.#owner = { agentId, callerKey }
      this.#callers.add(agentId)
    }
    if (enterShare && !this.#share) this.#takeMemory(enterShare())
    this.reads?.goOn()
    for (const begin of this.#waiting.splice(0)) begin()
  }

  /** Bytes that closing it frees; 0 while an exchange runs. */
  get bufferedBytes(): number {
    return this.#share && this.exchanges.size === 0 ? this.#memoryBytes : 0
  }

  get isIdle(): boolean {
    return this.exchanges.size === 0
  }

  /** Closes the connection, because others need its memory. */
  drop(): void {
    this.#giveMemory()
    this.#closeSocket()
  }

  /**
   * Ends the connection: bytes that were written are still sent, and the client has time to take them. Reads no further
   * request.
   *
   * @param isUpgraded - the client may have paused
   */
  end(isUpgraded = false): void {
    if (this.#lingering) return
    this.broken = true
    this.meter?.stop()
    const bounds = isUpgraded && !this.closeWhenIdle ? lingering.upgraded : this.#lingerBounds
    this.#lingering = new Lingering(this.socket, bounds, isUpgraded)
    this.reads?.stop()
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

  /** Begins the request that was added last; before a caller was let in, requests begin one after another. */
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

  /** Closes an idle connection, because kas leaves. */
  closeIfIdle(): void {
    if (!this.closeWhenIdle || this.isNew || this.exchanges.size > 0) return
    if (this.#lingering) this.#lingering.hurry(this.#lingerBounds.ms)
    else this.#closeSocket()
  }
}

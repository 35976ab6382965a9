import type { Server, Socket } from 'node:net'
import { type Clock, monotonicClock } from '../../../lib/clock.ts'
import { addressOf, remoteOf } from '../../../lib/host-port.ts'
import { LimitedLog } from '../../../lib/limited-log.ts'
import type { Logger } from '../../../lib/log.ts'
import type { ClientAddresses } from './client-addresses.ts'
import { readProxyHeader } from './proxy-header.ts'

export interface ProxyProtocolComponents {
  readonly addresses: ClientAddresses
  /** bounds the connections of fronts whose client is not known yet */
  readonly fronts: {
    arrived(socket: Socket): void
    /** Called when the connection counts as its client's. */
    forget(remote: string): void
  }
  readonly refused: (reason: 'too_slow' | 'proxy_header') => void
  readonly log: Logger
  readonly clock?: Clock
}

/** Time from a connection's start to the end of its header. ms */
const headerTimeoutMs = 10_000

interface Waiting {
  readonly socket: Socket
  readonly remote: string
  /** bytes of the header so far */
  head: Buffer
  /** stops waiting for the header */
  readonly end: () => void
}

/** Reads the PROXY header with which each connection of a front begins, before TLS and everything else. */
export class ProxyProtocol {
  readonly #components: ProxyProtocolComponents
  readonly #clock: Clock
  readonly #misread: LimitedLog
  readonly #waiting = new Set<Socket>()

  constructor(components: ProxyProtocolComponents) {
    const { log, clock = monotonicClock } = components
    this.#components = components
    this.#clock = clock
    this.#misread = new LimitedLog({ clock, log }, 'A front did not begin with a PROXY header that can be read')
  }

  /**
   * Hands connections of fronts to the server's present listeners once their header is read. Other connections go to
   * the listeners at once: there a PROXY header is invalid, because it is neither TLS nor HTTP.
   */
  readFirst(server: Server): void {
    const listeners = server.listeners('connection') as ((this: Server, socket: Socket) => void)[]
    server.removeAllListeners('connection')
    const handOn = (socket: Socket) => {
      for (const listener of listeners) listener.call(server, socket)
    }
    server.on('connection', (socket: Socket) => {
      const remote = remoteOf(socket)
      if (remote !== undefined && this.#components.addresses.isTrusted(addressOf(remote)))
        this.#await(socket, remote, handOn)
      else handOn(socket)
    })
  }

  /** Closes connections whose header has not come. */
  destroyWaiting(): void {
    for (const socket of this.#waiting) socket.destroy()
  }

  #await(socket: Socket, remote: string, handOn: (socket: Socket) => void): void {
    const { fronts, addresses } = this.#components
    const onReadable = () => this.#read(waiting, handOn)
    const onEnd = () => {
      if (waiting.head.length > 0) this.#refuse(waiting, 'it is cut')
      else socket.destroy() // a health check of the port
    }
    const stopTimer = this.#clock.after(headerTimeoutMs, () => {
      this.#components.refused('too_slow')
      socket.destroy()
    })
    const end = () => {
      stopTimer()
      this.#waiting.delete(socket)
      socket.off('readable', onReadable).off('end', onEnd).off('error', ignore).off('close', end)
    }
    const waiting: Waiting = { socket, remote, head: Buffer.alloc(0), end }
    this.#waiting.add(socket)
    socket.on('close', () => addresses.forget(remote))
    socket.on('error', ignore).on('close', end).on('end', onEnd).on('readable', onReadable)
    fronts.arrived(socket)
  }

  #read(waiting: Waiting, handOn: (socket: Socket) => void): void {
    const { socket, remote } = waiting
    const chunk = socket.read() as Buffer | null
    if (!chunk) return
    waiting.head = waiting.head.length === 0 ? chunk : Buffer.concat([waiting.head, chunk])
    const header = readProxyHeader(waiting.head)
    if (header.kind === 'partial') return
    if (header.kind === 'invalid') return void this.#refuse(waiting, header.detail)
    const { addresses, fronts } = this.#components
    waiting.end()
    addresses.learn(remote, header.address)
    fronts.forget(remote)
    const rest = waiting.head.subarray(header.bytes)
    // in the next tick the stream knows that it has no reader: the next reader gets it as it was accepted
    process.nextTick(() => {
      if (socket.destroyed) return
      if (rest.length > 0) socket.unshift(rest)
      handOn(socket)
    })
  }

  #refuse({ socket, remote }: Waiting, detail: string): void {
    this.#components.refused('proxy_header')
    this.#misread.warn(detail, { net_address: addressOf(remote) })
    socket.destroy()
  }
}

function ignore(): void {} // 'close' follows

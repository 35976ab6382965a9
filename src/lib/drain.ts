import { once } from 'node:events'
import { type ListenOptions, Server, type Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { type Clock, systemClock } from './clock.ts'
import type { Logger } from './log.ts'
import { pause } from './pause.ts'
import { type HandshakeSources, TlsHandshakes } from './tls-handshakes.ts'

/** A server, and what it does of its own at each step of its end. */
export interface Drainable extends HandshakeSources {
  /** just made: each of its connections is seen, and begins TLS in its turn */
  readonly server: Server
  readonly log: Pick<Logger, 'warn'>
  /** of a server that speaks TLS: how long a connection may say nothing at its start; default 10 s. ms */
  readonly firstBytesMs?: number
  /** resolves once it drains and no work runs: connections may then linger; absent: each ends with its work */
  readonly idle?: Promise<unknown>
  /** It leaves, and everything still works. */
  announce?(): Promise<void>
  /** No connection is taken any more. */
  close?(): void
  /** No work is taken any more: what is idle ends. */
  drain?(): void
  /** Who has arrived and has asked for nothing yet is waited for no longer. */
  endArrivals?(): void
  /** The shutdown grace is over: what can end in order does. */
  endStreams?(): void
  /** All connections are about to be destroyed. */
  cut?(): void
}

export interface DrainOptions {
  /** how long new work is still taken. ms */
  readonly listenGraceMs?: number
  /** after that: how long work that runs may take; absent: as long as there is patience. ms */
  readonly shutdownGraceMs?: number | undefined
  /** after that, or after the last work: how long connections may take to end. ms */
  readonly lingerMs?: number
  /**
   * once no connection is taken any more: how long those taken just before may still take to agree on TLS, and to ask
   * for something. ms
   */
  readonly arrivalMs?: number
  /**
   * What waits for `stop`, because parts that stop before need it to their end: `drain`, or to `close` too. Absent:
   * nothing, both follow the listen grace
   */
  readonly untilStop?: 'drain' | 'close'
  readonly clock?: Clock
}

/**
 * - `serving`
 * - `leaving`: the listen grace, and what waits for `stop`; work is taken
 * - `draining`: none is, and what is idle ends; what runs goes on
 * - `ended`
 */
export type DrainPhase = 'serving' | 'leaving' | 'draining' | 'ended'

const defaultFirstBytesMs = 10_000

/**
 * The life of a server: it listens, leaves, drains and, where the shutdown grace or patience is over, is cut
 * (doc/operations.md "How a replica leaves").
 */
export class Drain {
  readonly #drainable: Drainable
  readonly #options: DrainOptions
  readonly #handshakes: TlsHandshakes | undefined
  /** what was accepted; with TLS other objects than those that speak */
  readonly #sockets = new Set<Socket>()
  /** cuts the listen grace short, then what drains */
  readonly #impatience = new AbortController()
  readonly #ended = new AbortController()
  #phase: DrainPhase = 'serving'
  #graceOver = new Promise<void>(() => undefined)
  #left: Promise<void> | undefined
  #closed: Promise<void> | undefined
  #drained: Promise<void> | undefined

  constructor(drainable: Drainable, options: DrainOptions = {}) {
    this.#drainable = drainable
    this.#options = options
    const { server, firstBytesMs = defaultFirstBytesMs } = drainable
    if (server instanceof TlsServer) this.#handshakes = new TlsHandshakes(server, firstBytesMs, drainable)
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
  }

  get phase(): DrainPhase {
    return this.#phase
  }

  /** @throws Error when the address cannot be had: then there is nothing to stop */
  async listen(options: ListenOptions): Promise<void> {
    const { server, log } = this.#drainable
    server.listen(options)
    await once(server, 'listening')
    server.on('error', (error) => log.warn({ error }, 'A connection could not be accepted'))
  }

  /**
   * Resolves once the listen grace is over, and what does not wait for `stop` is under way. Without patience nobody has
   * any later: `stop` cuts.
   */
  leave(patience?: AbortSignal): Promise<void> {
    this.#left ??= this.#leave()
    return this.#heed(patience, this.#left)
  }

  /** Resolves once all connections have ended. */
  stop(patience?: AbortSignal): Promise<void> {
    return this.#heed(patience, this.#stop())
  }

  async #heed(patience = AbortSignal.abort(), step: Promise<void>): Promise<void> {
    const onImpatience = () => this.#impatience.abort()
    if (patience.aborted) onImpatience()
    patience.addEventListener('abort', onImpatience)
    await step.finally(() => patience.removeEventListener('abort', onImpatience))
  }

  async #leave(): Promise<void> {
    const { listenGraceMs, shutdownGraceMs, untilStop } = this.#options
    if (!this.#drainable.server.listening) {
      this.#phase = 'ended'
      return
    }
    this.#phase = 'leaving'
    await this.#drainable.announce?.()
    await this.#wait(listenGraceMs, this.#impatience.signal)
    if (listenGraceMs) await pollPhase() // who is connected already, and waits to be accepted, would be reset
    if (shutdownGraceMs !== undefined) this.#graceOver = this.#wait(shutdownGraceMs, this.#ended.signal)
    if (untilStop !== 'close') this.#closed = this.#close()
    if (untilStop === undefined) this.#drained = this.#drain()
  }

  async #stop(): Promise<void> {
    this.#left ??= this.#leave()
    await this.#left
    if (this.#phase === 'leaving') this.#drained = this.#drain()
    await this.#drained
  }

  async #close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    // not that of HTTP, which destroys idle connections with what they still have to send
    Server.prototype.close.call(this.#drainable.server, () => resolve())
    this.#drainable.close?.()
    void this.#endArrivals()
    await promise
  }

  async #endArrivals(): Promise<void> {
    await this.#wait(this.#options.arrivalMs, this.#ended.signal)
    this.#handshakes?.destroy()
    this.#drainable.endArrivals?.()
  }

  async #drain(): Promise<void> {
    this.#phase = 'draining'
    this.#closed ??= this.#close()
    this.#drainable.drain?.()
    const { signal } = this.#impatience
    signal.addEventListener('abort', () => this.#cut())
    if (signal.aborted) this.#cut()
    void this.#cutInTime()
    await this.#closed
    this.#phase = 'ended'
    this.#ended.abort()
    this.#drainable.server.close() // of HTTP: its timers
  }

  async #cutInTime(): Promise<void> {
    const ended = this.#ended.signal
    await Promise.race([this.#graceOver, this.#drainable.idle ?? this.#graceOver])
    if (ended.aborted) return
    this.#drainable.endStreams?.()
    await this.#wait(this.#options.lingerMs, ended)
    if (!ended.aborted) this.#cut()
  }

  /** Without a time not even a turn of the event loop passes. */
  async #wait(ms = 0, signal: AbortSignal): Promise<void> {
    if (ms > 0) await pause(ms, this.#options.clock ?? systemClock, signal)
  }

  #cut(): void {
    this.#drainable.cut?.()
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** Of the event loop: what has come from the network has been read then. */
const pollPhase = () => new Promise((resolve) => setImmediate(resolve))

import type { ListenOptions, Server, Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { Acceptors } from './acceptors.ts'
import { type Clock, systemClock } from './clock.ts'
import type { Logger } from './log.ts'
import { pause } from './pause.ts'
import { type HandshakeSources, TlsHandshakes } from './tls-handshakes.ts'

/** A server, and its own work at each step of its end. */
export interface Drainable extends HandshakeSources {
  /** just created, so that each of its connections is seen, and begins TLS in its turn */
  readonly server: Server
  readonly log: Pick<Logger, 'warn'>
  /** with TLS: time in which a connection has to send its first bytes; default 10 s. ms */
  readonly firstBytesMs?: number
  /** resolves once the server drains and no work runs: connections may then linger; absent: each ends with its work */
  readonly idle?: Promise<unknown>
  /** The server leaves, and everything still works. */
  announce?(): Promise<void>
  /** The server accepts no more connections. */
  close?(): void
  /** The server accepts no more work: idle connections end. */
  drain?(): void
  /** Ends connections that have asked for nothing yet. */
  endArrivals?(): void
  /** The shutdown grace is over: ends in order all work that can end so. */
  endStreams?(): void
  /** All connections are about to be destroyed. */
  cut?(): void
}

export interface DrainOptions {
  /** time in which new work is still accepted. ms */
  readonly listenGraceMs?: number
  /** after that: time for running work; absent: as long as there is patience. ms */
  readonly shutdownGraceMs?: number | undefined
  /** after that, or after the last work: time for connections to end. ms */
  readonly lingerMs?: number
  /** time for the last connections to agree on TLS and to ask for something, once no more are accepted. ms */
  readonly arrivalMs?: number
  /**
   * steps that wait for `stop`, because parts that stop before it need this server: `drain`, or also `close`. Absent:
   * both follow the listen grace
   */
  readonly untilStop?: 'drain' | 'close'
  readonly clock?: Clock
}

/**
 * - `serving`
 * - `leaving`: the listen grace, and the wait for `stop`; work is accepted
 * - `draining`: no work is accepted, idle connections end, and running work goes on
 * - `ended`
 */
export type DrainPhase = 'serving' | 'leaving' | 'draining' | 'ended'

const defaultFirstBytesMs = 10_000

/** Turns of the event loop in which waiting connections are accepted at the end: new ones may come without end. */
const maxAcceptTurns = 512

/**
 * Life of a server: it listens, leaves and drains. It is cut if the shutdown grace or patience ends (doc/operate/operations.md
 * "How a replica leaves").
 */
export class Drain {
  readonly #drainable: Drainable
  readonly #options: DrainOptions
  readonly #acceptors: Acceptors
  readonly #handshakes: TlsHandshakes | undefined
  /** accepted sockets; with TLS, the speaking sockets are other objects */
  readonly #sockets = new Set<Socket>()
  /** ends the listen grace early, then the drain */
  readonly #impatience = new AbortController()
  readonly #ended = new AbortController()
  #accepted = 0
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
    this.#acceptors = new Acceptors(server)
    server.on('connection', (socket: Socket) => {
      this.#accepted += 1
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
  }

  get phase(): DrainPhase {
    return this.#phase
  }

  /** @throws Error if the server cannot listen on the address: then there is nothing to stop */
  async listen(options: ListenOptions): Promise<void> {
    const { server, log } = this.#drainable
    await this.#acceptors.listen(options)
    server.on('error', (error) => log.warn({ error }, 'A connection could not be accepted'))
  }

  /**
   * Resolves once the listen grace is over, and each step that does not wait for `stop` has begun. Without patience
   * `stop` cuts at once.
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
    if (listenGraceMs) await this.#acceptWaiting()
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
    const closed = this.#acceptors.close()
    this.#drainable.close?.()
    void this.#endArrivals()
    await closed
  }

  /** Accepts the connections that wait in the system's queues, which `close` would reset. */
  async #acceptWaiting(): Promise<void> {
    let idleTurns = 0
    for (let turns = 0; turns < maxAcceptTurns && idleTurns < 2; turns++) {
      const before = this.#accepted
      await pollPhase()
      idleTurns = this.#accepted === before ? idleTurns + 1 : 0
    }
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
    this.#drainable.server.close() // ends the timers of HTTP
  }

  async #cutInTime(): Promise<void> {
    const ended = this.#ended.signal
    await Promise.race([this.#graceOver, this.#drainable.idle ?? this.#graceOver])
    if (ended.aborted) return
    this.#drainable.endStreams?.()
    await this.#wait(this.#options.lingerMs, ended)
    if (!ended.aborted) this.#cut()
  }

  /** Waits for this time; without one, not even a turn of the event loop passes. */
  async #wait(ms = 0, signal: AbortSignal): Promise<void> {
    if (ms > 0) await pause(ms, this.#options.clock ?? systemClock, signal)
  }

  #cut(): void {
    this.#drainable.cut?.()
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** Waits for the poll phase of the event loop: the data that has come from the network is read then. */
const pollPhase = () => new Promise((resolve) => setImmediate(resolve))

import type { WebSocket } from 'ws'
import { type ByteMeter, noMeter } from '../../../../lib/byte-budget.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { closeCodes } from '../../../../lib/close-codes.ts'
import type { KubernetesLimits } from '../http/kubernetes-limits.ts'
import { closeReason } from './server-frames.ts'

/** A client's WebSocket: sends as fast as the client reads, and notices when it has left. */
export class ClientSocket {
  /** memory of the caller, which also counts bytes kept for the client elsewhere */
  readonly memory: ByteMeter
  readonly #socket: WebSocket
  readonly #clock: Clock
  readonly #limits: KubernetesLimits
  readonly #closed: Promise<void>
  #isAlive = true
  #cancelPing: () => void

  /** @param memory - counts bytes that the client has not taken; absent: the socket lives for seconds */
  constructor(socket: WebSocket, clock: Clock, limits: KubernetesLimits, memory: ByteMeter = noMeter) {
    this.memory = memory
    this.#socket = socket
    this.#clock = clock
    this.#limits = limits
    const markAlive = () => {
      this.#isAlive = true
    }
    socket.on('pong', markAlive)
    socket.on('message', markAlive)
    socket.on('ping', (data) => {
      if (socket.bufferedAmount < limits.maxWatchUnsentBytes) socket.pong(data)
    })
    socket.on('error', ignore) // 'close' follows, with the code that the client gets
    this.#cancelPing = clock.after(limits.watchPingMs, () => this.#ping())
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#closed = promise
    socket.once('close', () => {
      this.#cancelPing()
      resolve()
    })
    if (socket.readyState === socket.CLOSED) resolve()
  }

  /** Resolves when the socket is closed; `signal` closes it because kas leaves. */
  async untilClosed(signal: AbortSignal): Promise<void> {
    const onAbort = () => this.close(closeCodes.goingAway, 'kas is shutting down')
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    await this.#closed // an error ends with 'close' too
    signal.removeEventListener('abort', onAbort)
  }

  /** True until the socket begins to close. */
  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN
  }

  /** Reads nothing from the client until `resume`. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /** Sends a text. Undefined: go on; a promise: resolves when the client has taken it, or has left. */
  send(text: string): Promise<void> | undefined {
    if (!this.isOpen) return this.#closed
    const promise = this.#write(text)
    return this.#socket.bufferedAmount < this.#limits.maxWatchUnsentBytes ? undefined : this.#withDeadline(promise)
  }

  /** Sends a text. Resolves when the client's connection has taken all of it, or the client has left. */
  sent(text: string): Promise<void> {
    if (!this.isOpen) return this.#closed
    return this.#withDeadline(this.#write(text))
  }

  #write(text: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.memory.take(text.length)
    this.#socket.send(text, () => {
      this.memory.give(text.length)
      resolve()
    })
    return promise
  }

  async #withDeadline(sent: Promise<void>): Promise<void> {
    const cancel = this.#clock.after(this.#limits.ownSocketWriteTimeoutMs, () => this.#socket.terminate())
    await sent
    cancel()
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, closeReason(reason))
  }

  #ping(): void {
    if (!this.#isAlive) return void this.#socket.terminate()
    this.#isAlive = false
    this.#socket.ping()
    this.#cancelPing = this.#clock.after(this.#limits.watchPingMs, () => this.#ping())
  }
}

function ignore(): void {}

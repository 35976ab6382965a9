import type { Socket } from 'node:net'
import type { ByteMeter } from '../../../../lib/byte-budget.ts'
import { KasError } from '../../../../lib/errors.ts'
import { ByteSource } from './byte-source.ts'

export interface UpgradedSocketOptions {
  /** the client has closed its side before the answer */
  readonly onEarlyEnd: () => void
}

/**
 * - `waiting`: the client waits for an answer; bytes that it sends meanwhile are kept within the bounds of ByteSource
 * - `switched`: bytes go both ways
 * - `refused`: it will not be upgraded
 * - `taken`: another owner reads and writes the connection
 */
type State = 'waiting' | 'switched' | 'refused' | 'taken'

/**
 * Connection of an upgrade request, which node's HTTP no longer controls. Its client may stop reading for as long as
 * the connection lives: bytes that wait for it are counted. TCP finds dead connections.
 */
export class UpgradedSocket {
  /** bytes of the client after the upgrade; undefined: it will not be upgraded */
  readonly bytes: Promise<ByteSource | undefined>
  readonly #socket: Socket
  readonly #source: ByteSource
  readonly #decide: (bytes: ByteSource | undefined) => void
  #state: State = 'waiting'
  #sentBytes = 0
  #resume: (() => void) | undefined
  #isEnding = false

  /** @param head - bytes that came with the request */
  constructor(socket: Socket, head: Buffer, options: UpgradedSocketOptions) {
    const { promise, resolve } = Promise.withResolvers<ByteSource | undefined>()
    this.bytes = promise
    this.#decide = resolve
    this.#socket = socket
    socket.setTimeout(0)
    socket.on('error', () => socket.destroy())
    socket.on('drain', () => this.#resume?.())
    socket.on('end', () => {
      if (this.#state === 'waiting') options.onEarlyEnd()
    })
    if (head.length > 0) socket.unshift(head)
    this.#source = new ByteSource(socket)
  }

  /** Counts the client's unread bytes with this meter. */
  countBy(meter: ByteMeter): void {
    this.#source.countBy(meter)
  }

  /** bytes from the client */
  get receivedBytes(): number {
    return this.#source.bytes
  }

  /** bytes to the client */
  get sentBytes(): number {
    return this.#sentBytes
  }

  switched(): void {
    this.#state = 'switched'
    this.#decide(this.#source)
  }

  /** Refuses the upgrade: the answer is not 101, and the call gets no more bytes. */
  refused(): void {
    if (this.#state !== 'waiting') return
    this.#state = 'refused'
    this.#decide(undefined)
  }

  /** Hands the paused socket over. @returns bytes that the client has sent */
  takeOver(): Buffer {
    this.#state = 'taken'
    this.#decide(undefined)
    return this.#source.takeBack()
  }

  abandon(reason: KasError): void {
    if (this.#state === 'taken') return
    this.refused()
    this.#source.fail(reason)
    this.#resume?.()
    if (this.#isEnding) this.#socket.destroy()
  }

  /** Writes a chunk. Undefined: go on; a promise: resolves when the client has taken enough, or was cut. */
  write(chunk: Uint8Array): Promise<void> | undefined {
    this.#sentBytes += chunk.length
    if (this.#socket.write(chunk) || this.#socket.destroyed) return undefined
    return new Promise<void>((resolve) => {
      this.#resume = resolve
    })
  }

  /** Stops reading. Resolves when the client has taken all bytes from kas, or the connection was abandoned. */
  async end(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#isEnding = true
    this.#source.fail(new KasError({ code: 'CANCELLED' }))
    this.#socket.once('finish', resolve).once('close', resolve)
    if (this.#socket.closed) resolve()
    await promise
  }
}

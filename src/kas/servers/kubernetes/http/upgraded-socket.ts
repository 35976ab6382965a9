import type { Socket } from 'node:net'
import type { ByteMeter } from '../../../../lib/byte-budget.ts'
import { KasError } from '../../../../lib/errors.ts'
import { ByteSource } from './byte-source.ts'

export interface UpgradedSocketOptions {
  /** the client has closed its side before it was answered */
  readonly onEarlyEnd: () => void
}

/**
 * - `waiting`: the client waits for an answer; what it sends meanwhile is kept within the bounds of ByteSource
 * - `switched`: bytes go both ways
 * - `refused`: it will not be upgraded
 * - `taken`: another owner reads and writes the connection
 */
type State = 'waiting' | 'switched' | 'refused' | 'taken'

/**
 * The connection of a request to upgrade, which is no longer node's HTTP's. Its client may stop reading for as long as the
 * connection lives: what waits for it is counted, and TCP finds the one that is dead.
 */
export class UpgradedSocket {
  /** what the client sends once it is upgraded; undefined: it will not be */
  readonly bytes: Promise<ByteSource | undefined>
  readonly #socket: Socket
  readonly #source: ByteSource
  readonly #decide: (bytes: ByteSource | undefined) => void
  #state: State = 'waiting'
  #sentBytes = 0
  #resume: (() => void) | undefined
  #isEnding = false

  /** @param head - what came with the request */
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

  /** Counts there the bytes that the client has sent and nobody has read. */
  countBy(meter: ByteMeter): void {
    this.#source.countBy(meter)
  }

  /** by the client */
  get receivedBytes(): number {
    return this.#source.bytes
  }

  /** to the client */
  get sentBytes(): number {
    return this.#sentBytes
  }

  switched(): void {
    this.#state = 'switched'
    this.#decide(this.#source)
  }

  /** It is answered with something other than 101: the call's requests end here. */
  refused(): void {
    if (this.#state !== 'waiting') return
    this.#state = 'refused'
    this.#decide(undefined)
  }

  /** Hands the socket over, paused. @returns what the client has sent by now */
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

  /** Undefined: go on; a promise: when the client has taken enough, or was cut. */
  write(chunk: Uint8Array): Promise<void> | undefined {
    this.#sentBytes += chunk.length
    if (this.#socket.write(chunk) || this.#socket.destroyed) return undefined
    return new Promise<void>((resolve) => {
      this.#resume = resolve
    })
  }

  /** Nothing more is read of it. Resolves once its client has taken what kas holds, or it was abandoned. */
  async end(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#isEnding = true
    this.#source.fail(new KasError({ code: 'CANCELLED' }))
    this.#socket.once('finish', resolve).once('close', resolve)
    if (this.#socket.closed) resolve()
    await promise
  }
}

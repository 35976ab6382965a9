import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type ByteMeter, noMeter } from '../../../../lib/byte-budget.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { ArrivedCall } from '../../arrivals.ts'
import { type CalledAs, hasNoBody } from '../request/request-head.ts'
import type { ResponseHead } from '../response/response-head.ts'
import { Answer } from './answer.ts'
import { ByteSource } from './byte-source.ts'
import type { CallMemory } from './call-memory.ts'
import type { Connection } from './connection.ts'
import type { UpgradedSocket } from './upgraded-socket.ts'

export interface ExchangeOptions {
  /** connection of an Upgrade request; absent: no upgrade */
  readonly upgrade?: UpgradedSocket
  /** the client waits for 100 Continue before it sends the body */
  readonly expectsContinue?: boolean
  /** frees the room of the head; absent: it has taken none */
  readonly giveHead?: (() => void) | undefined
  /** returns true if the connection closes after the answer */
  readonly leaving: () => boolean
}

/** One request and its answer, on node's own objects. */
export class Exchange {
  readonly request: IncomingMessage
  readonly connection: Connection
  readonly upgrade: UpgradedSocket | undefined
  /** trusted address of the client; undefined: a Unix socket */
  readonly address: string | undefined
  /** kind of answer without an end; undefined: neither, or the target is not read yet */
  asked: 'watch' | 'log' | undefined
  /** ends the exchange with a reason that its client can read if possible; undefined: no caller was let in yet */
  endWithReason: ((reason: KasError) => void) | undefined
  /** counts waiting bytes; undefined: no caller was let in yet */
  #memory: CallMemory | undefined
  #isHandled = false
  readonly #response: ServerResponse
  readonly #answer: Answer
  #options: ExchangeOptions
  #controller: AbortController | undefined
  #body: ByteSource | undefined
  #continueOwed: boolean
  /** answered with 101: the connection now carries bytes */
  #switched = false
  /** the connection is a WebSocket of kas itself, which its client opens again */
  #isOwnSocket = false
  /** bytes of the connection when it became a WebSocket of kas itself */
  #atOwnSocket = { read: 0, written: 0 }

  constructor(request: IncomingMessage, response: ServerResponse, connection: Connection, options: ExchangeOptions) {
    this.request = request
    this.connection = connection
    this.upgrade = options.upgrade
    this.address = connection.addressOf(request)
    this.#response = response
    this.#options = options
    this.#continueOwed = options.expectsContinue ?? false
    this.#answer = new Answer(response, connection, request.method === 'HEAD')
    connection.add(this)
  }

  get arrived(): ArrivedCall {
    const { remote, origin } = this.connection
    return { remote, isFront: origin.isFront, address: this.address }
  }

  /** Client's address for the cluster, in place of the request's; undefined: the request's is passed on. */
  get forwardedAddress(): string | undefined {
    return this.connection.forwardsAddress ? this.address : undefined
  }

  get calledAs(): CalledAs {
    const { socket, forwardsAddress, origin } = this.connection
    return { isTls: 'encrypted' in socket, replaces: forwardsAddress && !origin.isFront }
  }

  /** Aborts when the client leaves, or the request is ended early. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    return this.#controller.signal
  }

  /** True once the status line was sent: no other answer is possible. */
  get begun(): boolean {
    return this.#response.headersSent
  }

  /** True if a further message cannot follow the bytes that were sent. */
  get isHalfWritten(): boolean {
    return this.#answer.isHalfWritten
  }

  /** status of the answer; undefined: there is none yet */
  get statusCode(): number | undefined {
    if (this.#switched) return 101
    return this.#response.headersSent ? this.#response.statusCode : undefined
  }

  /** bytes of both bodies; for an upgraded connection, bytes since the upgrade */
  get bytes(): { readonly received: number; readonly sent: number } {
    const { upgrade } = this
    if (this.#isOwnSocket) {
      const { bytesRead, bytesWritten } = this.connection.socket
      return { received: bytesRead - this.#atOwnSocket.read, sent: bytesWritten - this.#atOwnSocket.written }
    }
    if (upgrade && this.#switched) return { received: upgrade.receivedBytes, sent: upgrade.sentBytes }
    return { received: this.#body?.bytes ?? 0, sent: this.#answer.sentBytes }
  }

  /** True if the body has a transfer coding. */
  get isChunked(): boolean {
    return this.request.headers['transfer-encoding'] !== undefined
  }

  /** True if the request is complete. */
  get isRequestRead(): boolean {
    return this.request.complete || this.upgrade !== undefined || hasNoBody(this.request)
  }

  /** Aborts the exchange: the client has left, or its request was malformed. */
  leave(reason: KasError): void {
    if (this.signal.aborted) return
    this.#controller?.abort(reason)
    this.#body?.fail(reason)
    this.upgrade?.abandon(reason)
    this.#answer.giveUp()
  }

  /** Counts waiting bytes in both directions with this memory from now on. */
  countBy(memory: CallMemory): void {
    this.#giveHead()
    this.#memory = memory
    this.upgrade?.countBy(memory)
  }

  /** Counts bytes that wait for the client of a WebSocket of kas itself. */
  get memory(): ByteMeter {
    return this.#memory ?? noMeter
  }

  /** Waits until the client has taken `bytes` of its answer, which count meanwhile. */
  async untilTaken(full: Promise<void>, bytes: number): Promise<void> {
    this.#memory?.take(bytes)
    await full
    this.#memory?.give(bytes)
  }

  /** Counts bytes that wait in kas for more of the answer; negative ones wait no longer. */
  countKept(bytes: number): void {
    if (bytes > 0) this.#memory?.take(bytes)
    else this.#memory?.give(-bytes)
  }

  /** bytes of an upgraded connection that its client has not taken */
  get unsentBytes(): number {
    return this.connection.socket.writableLength
  }

  /**
   * Sends the rest of an upgraded connection, and closes it. Resolves when the client has taken everything from kas.
   */
  async endUpgraded(): Promise<void> {
    const { upgrade } = this
    if (!upgrade) return
    const taken = upgrade.end()
    this.connection.end(true)
    await this.untilTaken(taken, this.unsentBytes)
  }

  /** Stops waiting for bytes that are being written: the answer is about to be cut. */
  giveUp(): void {
    this.#answer.giveUp()
  }

  /** Opens the body, after 100 Continue if the client waits for it. */
  openBody(): ByteSource {
    if (this.#continueOwed) this.#response.writeContinue()
    this.#continueOwed = false
    this.#body = new ByteSource(this.request)
    this.#body.countBy(this.#memory)
    return this.#body
  }

  /**
   * Begins the answer. The head is sent with the first bytes, at the end of the turn at the latest.
   *
   * @throws an Error of node if the head has invalid characters; another answer may still begin
   */
  begin(code: number, head: ResponseHead): void {
    this.#answer.begin(code, head, this.#isLast)
  }

  /**
   * Writes a chunk. Undefined: go on; a promise: resolves when the client has taken enough, or has left.
   *
   * @throws KasError INVALID_MESSAGE if more is written than announced
   */
  write(chunk: Uint8Array): Promise<void> | undefined {
    return this.#answer.write(chunk)
  }

  /** @throws KasError INVALID_MESSAGE if less was written than announced */
  end(): void {
    this.#answer.checkLength()
    this.#dropBody()
    this.#answer.end()
  }

  /**
   * Ends a begun answer, or an upgraded connection, with these bytes. Cuts a client that does not take them in time.
   *
   * @param isPatient - for upgraded connections: waits without a time limit
   */
  async endWith(bytes: Uint8Array, timeoutMs: number, isPatient = false): Promise<void> {
    const { socket } = this.connection
    if (isPatient) {
      socket.write(bytes)
      return await this.endUpgraded()
    }
    const ending = this.#switched ? socket : this.#response
    const { promise, resolve } = Promise.withResolvers<void>()
    const deadline = setTimeout(() => this.cut(), timeoutMs)
    ending.once('close', resolve)
    if (ending.closed) resolve()
    if (this.#switched) socket.end(bytes)
    else this.#answer.end(bytes)
    await promise
    clearTimeout(deadline)
  }

  /** Sends an answer of kas itself. */
  answer(code: number, headers: string[], body: string | Uint8Array): void {
    this.#answer.beginOwn(code, headers, Buffer.byteLength(body), this.#isLast)
    this.#dropBody()
    this.#answer.end(body)
  }

  /**
   * Answers as `answer` does, with a body that may be long. Each piece is sent after the one before, so that few bytes
   * wait in the connection and other clients have their turn.
   *
   * @returns true: the client has taken everything within `timeoutMs`; else it was cut, or has left
   */
  async answerInPieces(code: number, headers: string[], body: Uint8Array, timeoutMs: number): Promise<boolean> {
    this.#answer.beginOwn(code, headers, body.length, this.#isLast)
    this.#memory?.take(body.length) // until the call has ended
    const timer = setTimeout(() => this.cut(), timeoutMs)
    this.#dropBody()
    return await this.#answer.endInPieces(body).finally(() => clearTimeout(timer))
  }

  /** Answers 101; the connection then carries bytes. */
  switchProtocols(head: ResponseHead): void {
    this.#response.writeHead(101, head.statusText ?? 'Switching Protocols', head.headers)
    this.#response.flushHeaders()
    this.#response.detachSocket(this.connection.socket)
    this.#switched = true
    this.upgrade?.switched()
  }

  /**
   * Makes the connection a WebSocket, unless `accept` refuses it; nothing may have been answered yet.
   *
   * @param accept - gets the paused socket and the bytes that the client has sent; answers with 101, or throws
   */
  acceptWebSocket<T>(upgrade: UpgradedSocket, accept: (socket: Socket, head: Buffer) => T): T {
    const { socket } = this.connection
    const accepted = accept(socket, upgrade.takeOver())
    this.#response.detachSocket(socket)
    this.#switched = true
    this.#isOwnSocket = true
    this.#atOwnSocket = { read: socket.bytesRead, written: socket.bytesWritten }
    socket.resume()
    return accepted
  }

  /**
   * Ends a stream in order. A watch ends like those that an API server ends after a time, so its client may open it
   * again. The client of a pod's command gets the reason. Other answers go on, because a cut one would seem complete.
   */
  endStream(): void {
    if (!this.#isOpenWatch && !this.#switched) return
    if (this.#switched && !this.#isOwnSocket && this.endWithReason) {
      this.endWithReason(new KasError({ code: 'SHUTTING_DOWN' }))
      return
    }
    const { isHalfWritten } = this
    this.leave(new KasError({ code: 'CANCELLED' }))
    if (isHalfWritten) this.cut()
    else if (this.#switched) this.connection.end()
    else this.#response.end()
  }

  /**
   * Kind of stream that a leaving replica ends early. `watch`: its client goes on at another replica; `log`: a followed
   * log, whose reader must see that it is incomplete. Undefined: neither.
   */
  get leavesEarly(): 'watch' | 'log' | undefined {
    if (this.#isOwnSocket) return 'watch'
    if (!this.begun) return this.asked === 'log' ? 'log' : undefined // API servers answer with the log's first line
    return this.#answer.isOpen ? this.asked : undefined
  }

  get #isOpenWatch(): boolean {
    return this.#answer.isOpen && this.asked === 'watch'
  }

  /** Cuts a begun answer, so that the client sees that it is incomplete. */
  cut(): void {
    const { socket } = this.connection
    // in HTTP/1.0 a plain close would mean a complete answer: only a reset shows the cut
    if (this.request.httpVersionMinor === 0 && !('encrypted' in socket)) socket.resetAndDestroy()
    else socket.destroy()
  }

  /** Ends the handling; the exchange counts as running until its answer has been sent. */
  finish(): void {
    this.#isHandled = true
    const end = () => {
      this.connection.delete(this)
      this.#giveHead()
      this.#memory?.close()
    }
    const { closed, writableFinished } = this.#response
    if (this.#switched || closed || (this.upgrade && writableFinished)) return void end()
    this.#response.once('close', end)
    if (this.upgrade) this.#response.once('finish', end) // node closes the response with its connection only
  }

  #giveHead(): void {
    this.#options.giveHead?.()
    this.#options = { ...this.#options, giveHead: undefined }
  }

  /** True if the exchange only waits for its client. */
  get isHandled(): boolean {
    return this.#isHandled
  }

  get #isLast(): boolean {
    return this.#options.leaving() || this.connection.closeWhenIdle || !this.isRequestRead
  }

  /** Reads and drops the rest of the body once the answer is sent. */
  #dropBody(): void {
    if (!this.isRequestRead) this.#response.once('finish', () => this.#body?.release())
  }
}

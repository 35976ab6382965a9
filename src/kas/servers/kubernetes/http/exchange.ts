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
  /** the Upgrade request's connection; absent: no upgrade */
  readonly upgrade?: UpgradedSocket
  /** the client waits for 100 Continue before it sends its body */
  readonly expectsContinue?: boolean
  /** gives back the room that its head has taken; absent: it has taken none */
  readonly giveHead?: (() => void) | undefined
  /** the answer is to be the connection's last */
  readonly leaving: () => boolean
}

/** One request and its answer, on node's own objects. */
export class Exchange {
  readonly request: IncomingMessage
  readonly connection: Connection
  readonly upgrade: UpgradedSocket | undefined
  /** whose it is, as far as fronts that are trusted say; undefined: of a Unix socket */
  readonly address: string | undefined
  /** an answer without an end; undefined: none, or it is not read yet */
  asked: 'watch' | 'log' | undefined
  /** ends it so that its client can read why, where it has a place for that; undefined: nobody was let in yet */
  endWithReason: ((reason: KasError) => void) | undefined
  /** what of it waits is counted there; undefined: nobody was let in yet */
  #memory: CallMemory | undefined
  #isHandled = false
  readonly #response: ServerResponse
  readonly #answer: Answer
  #options: ExchangeOptions
  #controller: AbortController | undefined
  #body: ByteSource | undefined
  #continueOwed: boolean
  /** answered with 101: the connection carries bytes */
  #switched = false
  /** of these, one of kas' own, whose client opens it again */
  #isOwnSocket = false
  /** of the connection, when it became a WebSocket of kas' own */
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

  /** Whom kas names to the cluster as the origin, in place of what the request says; undefined: that is passed on. */
  get forwardedAddress(): string | undefined {
    return this.connection.forwardsAddress ? this.address : undefined
  }

  get calledAs(): CalledAs {
    const { socket, forwardsAddress, origin } = this.connection
    return { isTls: 'encrypted' in socket, replaces: forwardsAddress && !origin.isFront }
  }

  /** Aborts when the client leaves. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    return this.#controller.signal
  }

  /** The status line is on its way: nothing else can be answered any more. */
  get begun(): boolean {
    return this.#response.headersSent
  }

  /** Nothing could follow what has been sent. */
  get isHalfWritten(): boolean {
    return this.#answer.isHalfWritten
  }

  /** of the answer; undefined: there is none yet */
  get statusCode(): number | undefined {
    if (this.#switched) return 101
    return this.#response.headersSent ? this.#response.statusCode : undefined
  }

  /** of bodies; of a connection that was upgraded, what came and went on it since */
  get bytes(): { readonly received: number; readonly sent: number } {
    const { upgrade } = this
    if (this.#isOwnSocket) {
      const { bytesRead, bytesWritten } = this.connection.socket
      return { received: bytesRead - this.#atOwnSocket.read, sent: bytesWritten - this.#atOwnSocket.written }
    }
    if (upgrade && this.#switched) return { received: upgrade.receivedBytes, sent: upgrade.sentBytes }
    return { received: this.#body?.bytes ?? 0, sent: this.#answer.sentBytes }
  }

  /** of its body */
  get isChunked(): boolean {
    return this.request.headers['transfer-encoding'] !== undefined
  }

  /** Nothing more of the request can come. */
  get isRequestRead(): boolean {
    return this.request.complete || this.upgrade !== undefined || hasNoBody(this.request)
  }

  /** The client has left, or its request turned out malformed. */
  leave(reason: KasError): void {
    if (this.signal.aborted) return
    this.#controller?.abort(reason)
    this.#body?.fail(reason)
    this.upgrade?.abandon(reason)
    this.#answer.giveUp()
  }

  /** Counts there, from now on, the bytes that wait in both directions. */
  countBy(memory: CallMemory): void {
    this.#giveHead()
    this.#memory = memory
    this.upgrade?.countBy(memory)
  }

  /** Counts what waits for the client of a WebSocket of kas' own. */
  get memory(): ByteMeter {
    return this.#memory ?? noMeter
  }

  /** Waits for the client, which has not taken `bytes` of its answer yet. */
  async untilTaken(full: Promise<void>, bytes: number): Promise<void> {
    this.#memory?.take(bytes)
    await full
    this.#memory?.give(bytes)
  }

  /** Counts bytes that wait in kas until more of the answer has come; negative ones wait no longer. */
  countKept(bytes: number): void {
    if (bytes > 0) this.#memory?.take(bytes)
    else this.#memory?.give(-bytes)
  }

  /** bytes of an upgraded connection that its client has not taken */
  get unsentBytes(): number {
    return this.connection.socket.writableLength
  }

  /** Sends what an upgraded connection has left, and closes it. Resolves once the client has taken what kas holds. */
  async endUpgraded(): Promise<void> {
    const { upgrade } = this
    if (!upgrade) return
    const taken = upgrade.end()
    this.connection.end(true)
    await this.untilTaken(taken, this.unsentBytes)
  }

  /** Stops waiting for what is being written: the answer is about to be cut. */
  giveUp(): void {
    this.#answer.giveUp()
  }

  /** The body; a client that waits for 100 Continue gets it. */
  openBody(): ByteSource {
    if (this.#continueOwed) this.#response.writeContinue()
    this.#continueOwed = false
    this.#body = new ByteSource(this.request)
    this.#body.countBy(this.#memory)
    return this.#body
  }

  /**
   * Begins the answer. Its head leaves with what is written in the same turn, and at its end at the latest.
   *
   * @throws an Error of node if the head holds what HTTP forbids; another answer may still be begun
   */
  begin(code: number, head: ResponseHead): void {
    this.#answer.begin(code, head, this.#isLast)
  }

  /**
   * Undefined: go on; a promise: when the client has taken enough, or has left.
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
   * What was begun, an answer or the connection that it became, ends with these bytes. A client that does not take them in time
   * is cut.
   *
   * @param isPatient - one that was upgraded: there is no time but that of its other ends
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

  /** An answer that kas makes itself. */
  answer(code: number, headers: string[], body: string | Uint8Array): void {
    this.#answer.beginOwn(code, headers, Buffer.byteLength(body), this.#isLast)
    this.#dropBody()
    this.#answer.end(body)
  }

  /**
   * As `answer`, with a body that may be long: each piece leaves once the one before is sent, so that little waits in the
   * connection, and others have their turn.
   *
   * @returns whether the client has taken all of it within `timeoutMs`: if not it is cut, or has left
   */
  async answerInPieces(code: number, headers: string[], body: Uint8Array, timeoutMs: number): Promise<boolean> {
    this.#answer.beginOwn(code, headers, body.length, this.#isLast)
    this.#memory?.take(body.length) // until the call has ended
    const timer = setTimeout(() => this.cut(), timeoutMs)
    this.#dropBody()
    return await this.#answer.endInPieces(body).finally(() => clearTimeout(timer))
  }

  /** Answers 101; from now on the connection carries bytes. */
  switchProtocols(head: ResponseHead): void {
    this.#response.writeHead(101, head.statusText ?? 'Switching Protocols', head.headers)
    this.#response.flushHeaders()
    this.#response.detachSocket(this.connection.socket)
    this.#switched = true
    this.upgrade?.switched()
  }

  /**
   * The connection becomes a WebSocket, unless `accept` refuses it; nothing may have been answered yet.
   *
   * @param accept - gets the socket, paused, and what the client has sent by now; answers with 101, or throws
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
   * Ends a watch as an API server ends it after a time: the client sees no fault, and may begin it anew. What runs in a pod
   * gets the reason. Anything else would seem whole without being so.
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
   * A stream that a replica which leaves need not wait for. `watch`: its client goes on with another one where it stood;
   * `log`: it is followed, and its reader has to learn that it is not whole. Undefined: it is neither.
   */
  get leavesEarly(): 'watch' | 'log' | undefined {
    if (this.#isOwnSocket) return 'watch'
    if (!this.begun) return this.asked === 'log' ? 'log' : undefined // API servers answer with its first line
    return this.#answer.isOpen ? this.asked : undefined
  }

  get #isOpenWatch(): boolean {
    return this.#answer.isOpen && this.asked === 'watch'
  }

  /** Breaks an answer that was begun off, so that the client sees that it is not whole. */
  cut(): void {
    const { socket } = this.connection
    // where the answer ends with its connection, only a reset shows that it is not whole
    if (this.request.httpVersionMinor === 0 && !('encrypted' in socket)) socket.resetAndDestroy()
    else socket.destroy()
  }

  /** Its handling has ended; it counts as running until its answer has been sent. */
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
    if (this.upgrade) this.#response.once('finish', end) // node closes it with its connection alone
  }

  #giveHead(): void {
    this.#options.giveHead?.()
    this.#options = { ...this.#options, giveHead: undefined }
  }

  /** Whether the rest of it waits for its client alone. */
  get isHandled(): boolean {
    return this.#isHandled
  }

  get #isLast(): boolean {
    return this.#options.leaving() || this.connection.closeWhenIdle || !this.isRequestRead
  }

  /** What still comes of it is read once the answer is sent. */
  #dropBody(): void {
    if (!this.isRequestRead) this.#response.once('finish', () => this.#body?.release())
  }
}

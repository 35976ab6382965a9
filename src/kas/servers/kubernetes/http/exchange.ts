import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type ByteMeter, noMeter } from '../../../../lib/byte-budget.ts'
import { KasError } from '../../../../lib/errors.ts'
import { http } from '../../../../lib/http.ts'
import type { ArrivedCall } from '../../arrivals.ts'
import { type CalledAs, hasNoBody } from '../request/request-head.ts'
import type { ResponseHead } from '../response/response-head.ts'
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

/** How much of an unwanted body is read, and for how long, so that the client gets to read the answer. */
const maxDiscardedBytes = 256 * 1024
const maxDiscardingMs = 1000

/**
 * What one of a crowd is written at once: with its framing it fits into 16 KiB, which node keeps for each connection
 * over TLS as long as that lives. Of a longer write it keeps as much again, up to 80 KiB.
 */
const pieceBytes = 15 * 1024

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
  #options: ExchangeOptions
  #controller: AbortController | undefined
  #body: ByteSource | undefined
  #continueOwed: boolean
  #resume: (() => void) | undefined
  #listensForDrain = false
  #headFlushed = false
  /** its client is not waited for any more */
  #isGivenUp = false
  /** a piece of the body goes out bit by bit, or was not sent to its end */
  #isHalfWritten = false
  /** answered with 101: the connection carries bytes */
  #switched = false
  /** of these, one of kas' own, whose client opens it again */
  #isOwnSocket = false
  /** of the answer's body; undefined: unknown, or there is none */
  #expectedBytes: number | undefined
  #sentBytes = 0
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
    response.on('error', ignore) // a write after the client left: the connection's end is noticed
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
    return this.#isHalfWritten
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
    return { received: this.#body?.bytes ?? 0, sent: this.request.method === 'HEAD' ? 0 : this.#sentBytes }
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
    this.#resume?.()
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

  /** Sends what an upgraded connection has left, and closes it. */
  async endUpgraded(): Promise<void> {
    const { upgrade } = this
    if (upgrade) await this.untilTaken(upgrade.end(), this.unsentBytes)
  }

  /** Stops waiting for what is being written: the answer is about to be cut. */
  giveUp(): void {
    this.#isGivenUp = true
    this.#resume?.()
  }

  get #isOver(): boolean {
    return this.#isGivenUp || this.signal.aborted
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
    this.#keepAliveOrNot()
    this.#response.writeHead(code, head.statusText ?? http.STATUS_CODES[code] ?? '', head.headers)
    const bodiless = this.request.method === 'HEAD' || code === 204 || code === 304
    this.#expectedBytes = bodiless ? undefined : head.contentLength
    process.nextTick(flushHead, this)
  }

  /**
   * Undefined: go on; a promise: when the client has taken enough, or has left.
   *
   * @throws KasError INVALID_MESSAGE if more is written than announced
   */
  write(chunk: Uint8Array): Promise<void> | undefined {
    this.#headFlushed = true
    this.#sentBytes += chunk.length
    if (this.#expectedBytes !== undefined && this.#sentBytes > this.#expectedBytes) {
      throw invalid('the answer is longer than its Content-Length')
    }
    if (chunk.length === 0) return undefined
    if (chunk.length > pieceBytes && this.connection.isOfCrowd) return this.#writePieces(chunk)
    if (this.#response.write(chunk) || this.#isOver) return undefined
    if (!this.#listensForDrain) this.#response.on('drain', () => this.#resume?.())
    this.#listensForDrain = true
    return new Promise((resolve) => {
      this.#resume = resolve
    })
  }

  /** Each once the one before has been sent. */
  async #writePieces(chunk: Uint8Array): Promise<void> {
    this.#isHalfWritten = true
    for (let at = 0; at < chunk.length && !this.#isOver; at += pieceBytes) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#resume = resolve
      this.#response.write(chunk.subarray(at, at + pieceBytes), () => resolve())
      await promise
    }
    this.#isHalfWritten = this.#isOver
  }

  /** @throws KasError INVALID_MESSAGE if less was written than announced */
  async end(): Promise<void> {
    if (this.#expectedBytes !== undefined && this.#sentBytes < this.#expectedBytes) {
      throw invalid('the answer is shorter than its Content-Length')
    }
    this.#headFlushed = true
    if (!this.isRequestRead) await this.#discardRest()
    this.#response.end()
  }

  /**
   * What was begun, an answer or the connection that it became, ends with these bytes. A client that does not take them in time
   * is cut.
   *
   * @param isPatient - the time begins once it has taken them; what waits is counted until then
   */
  async endWith(bytes: Uint8Array, timeoutMs: number, isPatient = false): Promise<void> {
    const ending = this.#switched ? this.connection.socket : this.#response
    const { promise, resolve } = Promise.withResolvers<void>()
    let deadline: NodeJS.Timeout | undefined
    const setDeadline = () => {
      deadline = setTimeout(() => this.cut(), timeoutMs)
    }
    if (isPatient) ending.once('finish', setDeadline)
    else setDeadline()
    ending.once('close', resolve)
    if (ending.closed) resolve()
    this.#sentBytes += bytes.length
    this.#headFlushed = true
    ending.end(bytes) // what a client still sends is read, and dropped: a reset would take the last bytes from it
    await (isPatient ? this.untilTaken(promise, this.unsentBytes) : promise)
    clearTimeout(deadline)
  }

  /** An answer that kas makes itself. */
  async answer(code: number, headers: string[], body: string | Uint8Array): Promise<void> {
    this.#beginOwn(code, headers, Buffer.byteLength(body))
    if (this.isRequestRead) return void this.#response.end(body)
    this.#response.write(body)
    await this.#discardRest()
    this.#response.end()
  }

  /**
   * As `answer`, with a body that may be long: each piece leaves once the one before is sent, so that little waits in the
   * connection, and others have their turn.
   *
   * @returns whether the client has taken all of it within `timeoutMs`: if not it is cut, or has left
   */
  async answerInPieces(code: number, headers: string[], body: Uint8Array, timeoutMs: number): Promise<boolean> {
    const response = this.#response
    this.#beginOwn(code, headers, body.length)
    this.#memory?.take(body.length) // until the call has ended
    const timer = setTimeout(() => this.cut(), timeoutMs)
    try {
      await this.#writePieces(body)
      if (!this.isRequestRead) await this.#discardRest()
      const { promise, resolve } = Promise.withResolvers<void>()
      response.once('finish', resolve)
      this.signal.addEventListener('abort', () => resolve(), { once: true })
      response.end()
      if (!response.writableFinished && !this.signal.aborted) await promise
    } finally {
      clearTimeout(timer)
    }
    return response.writableFinished
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
    const isHalfWritten = this.#isHalfWritten
    this.leave(new KasError({ code: 'CANCELLED' }))
    if (isHalfWritten) this.cut()
    else if (this.#switched) this.connection.socket.destroySoon()
    else this.#response.end()
  }

  /**
   * A stream that a replica which leaves need not wait for. `watch`: its client goes on with another one where it stood;
   * `log`: it is followed, and its reader has to learn that it is not whole. Undefined: it is neither.
   */
  get leavesEarly(): 'watch' | 'log' | undefined {
    if (this.#isOwnSocket) return 'watch'
    if (!this.begun) return this.asked === 'log' ? 'log' : undefined // API servers answer with its first line
    return this.#expectedBytes === undefined ? this.asked : undefined
  }

  get #isOpenWatch(): boolean {
    return this.begun && this.#expectedBytes === undefined && this.asked === 'watch'
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
    if (this.#switched || this.#response.closed) end()
    else this.#response.once('close', end)
  }

  #giveHead(): void {
    this.#options.giveHead?.()
    this.#options = { ...this.#options, giveHead: undefined }
  }

  /** Whether the rest of it waits for its client alone. */
  get isHandled(): boolean {
    return this.#isHandled
  }

  #beginOwn(code: number, headers: string[], bytes: number): void {
    this.#keepAliveOrNot()
    headers.push('Content-Length', String(bytes))
    this.#response.writeHead(code, http.STATUS_CODES[code] ?? '', headers) // a head that failed has left its text
    this.#headFlushed = true
    this.#sentBytes = bytes
  }

  #keepAliveOrNot(): void {
    if (this.#options.leaving() || this.connection.closeWhenIdle || !this.isRequestRead) {
      this.#response.shouldKeepAlive = false
    }
  }

  /** Closing a connection with unread bytes would take the answer away from the client. */
  async #discardRest(): Promise<void> {
    if (this.#continueOwed) return // it may never come
    if (!this.#headFlushed) this.#response.flushHeaders()
    this.#body?.release()
    const { request } = this
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, maxDiscardingMs)
    let bytes = 0
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > maxDiscardedBytes) resolve()
    })
    request.on('end', resolve)
    this.#resume = resolve
    if (!this.signal.aborted) await promise
    clearTimeout(timer)
  }

  /** Called at the end of the turn in which the answer began. */
  flush(): void {
    if (this.#headFlushed || this.signal.aborted) return
    this.#headFlushed = true
    this.#response.flushHeaders()
  }
}

function flushHead(exchange: Exchange): void {
  exchange.flush()
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}

function ignore(): void {}

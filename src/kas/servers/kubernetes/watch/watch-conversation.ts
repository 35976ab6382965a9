import type { WebSocket } from 'ws'
import type { Reply } from '../../../../call/call.ts'
import type { Caller } from '../../../../call/caller.ts'
import { ByteBudget, type ByteMeter } from '../../../../lib/byte-budget.ts'
import { closeCodes, endCode } from '../../../../lib/close-codes.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { CallEnd, CallRecord } from '../../../access-log/call-record.ts'
import type { Authorized } from '../authorization/authorize.ts'
import { bytesOfCall } from '../http/call-memory.ts'
import type { KubernetesLimits } from '../http/kubernetes-limits.ts'
import { errorAnswer, type FailedAt } from '../response/error-answer.ts'
import type { ClientSocket } from '../websocket/client-socket.ts'
import { readWatch } from './read-watch.ts'
import {
  errorMessage,
  eventMessage,
  readWatchMessage,
  type WatchMessage,
  type WatchRequest,
  watchRequest,
} from './watch-message.ts'

/** Access with which a watch is opened. */
export interface WatchAccess {
  readonly letInAs: Authorized
  readonly caller: Caller
}

export interface HowOpened {
  /** counts bytes of incomplete events */
  readonly kept: ByteBudget
  readonly record: CallRecord
  readonly signal: AbortSignal
  /** called if the caller lost access when the watch was opened again, before the watch ends by that */
  readonly withdrawn: () => void
}

export interface WatchConversationComponents {
  readonly socket: WebSocket
  readonly out: ClientSocket
  /** counts bytes that are kept for all WebSockets of the agent */
  readonly keptOfAgent: ByteMeter
  /** creates the log record of a watch */
  record(request: WatchRequest): CallRecord
  /** asks for the caller's current access; throws the refusal */
  authorize(signal: AbortSignal, record: CallRecord): Promise<WatchAccess>
  open(request: WatchRequest, access: WatchAccess, how: HowOpened): Promise<Reply>
  /** called for each watch that failed; the client gets `traceId` too */
  failed(error: KasError, traceId: string | undefined): void
  /** undefined: nothing is traced */
  readonly traceId: string | undefined
}

/** Counts the parts of a watch that its client has received. */
interface Passed {
  /** status of the cluster's answer; undefined: none has come */
  status: number | undefined
  /** characters of events */
  sent: number
}

/**
 * Several watches over one WebSocket, each with the id that the client gave it (doc/reference/tunnel-protocol.md 6.8).
 */
export class WatchConversation {
  readonly #components: WatchConversationComponents
  readonly #limits: KubernetesLimits
  readonly #kept: ByteBudget
  readonly #watches = new Map<string, AbortController>()
  /** watches that run, including aborted ones that have not ended yet */
  #running = 0

  constructor(components: WatchConversationComponents, limits: KubernetesLimits) {
    this.#components = components
    this.#limits = limits
    this.#kept = new ByteBudget(limits.maxWatchPartialBytes, components.keptOfAgent)
    components.socket.on('message', (data, isBinary) => this.#onMessage(String(data), isBinary))
  }

  /** Resolves when the WebSocket is closed; `signal` closes it. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#components.out.untilClosed(signal)
    this.#endAll()
  }

  /** Ends each watch with the reason, and closes the WebSocket: the caller lost access, or makes room for others. */
  withdraw(reason: KasError): void {
    for (const [watchId, watch] of this.#watches) {
      watch.abort(reason)
      this.#fail(watchId, reason, 'entry')
    }
    this.#watches.clear()
    this.#components.out.close(endCode(reason), reason.message)
  }

  #onMessage(text: string, isBinary: boolean): void {
    const { socket, out } = this.#components
    if (socket.readyState !== socket.OPEN) return // the message was under way when the socket was closed
    if (isBinary) return void out.close(closeCodes.unsupportedData, 'messages are JSON in text frames')
    let message: WatchMessage
    try {
      message = readWatchMessage(text)
    } catch (error) {
      return void out.close(closeCodes.policyViolation, KasError.from(error).message)
    }
    this.#watches.get(message.watchId)?.abort(new KasError({ code: 'CANCELLED' }))
    this.#watches.delete(message.watchId)
    if (message.type === 'watch') void this.#watch(message.watchId, message.params, bytesOfCall(text.length))
  }

  /** Runs a watch. Never rejects. @param bytes - memory of its call */
  async #watch(watchId: string, params: Readonly<Record<string, unknown>>, bytes: number): Promise<void> {
    const limit = this.#limits.maxWatches
    if (this.#running >= limit) {
      this.#fail(watchId, new KasError({ code: 'TOO_MANY_WATCHES', limit }), 'entry')
      return
    }
    const watch = new AbortController()
    this.#watches.set(watchId, watch)
    this.#running++
    const { authorize, open, out } = this.#components
    out.memory.take(bytes)
    let failedAt: FailedAt = 'entry'
    let record: CallRecord | undefined
    let failure: KasError | undefined
    const passed: Passed = { status: undefined, sent: 0 }
    try {
      const request = watchRequest(params)
      record = this.#components.record(request)
      const access = await authorize(watch.signal, record)
      watch.signal.throwIfAborted()
      failedAt = 'tunnel'
      const withdrawn = () => {
        failedAt = 'entry'
      }
      const reply = await open(request, access, { kept: this.#kept, record, signal: watch.signal, withdrawn })
      await this.#pass(watchId, reply, { signal: watch.signal, record, passed })
    } catch (error) {
      failure = KasError.from(error)
      if (!watch.signal.aborted) this.#fail(watchId, failure, failedAt)
    }
    record?.ended(endOf(passed, watch.signal.aborted ? watch.signal.reason : failure, watch.signal.aborted))
    watch.abort(new KasError({ code: 'CANCELLED' })) // ends the rest of the call, if the watch ended first
    this.#running--
    out.memory.give(bytes)
    if (this.#watches.get(watchId) === watch) this.#watches.delete(watchId)
  }

  async #pass(
    watchId: string,
    reply: Reply,
    { signal, record, passed }: { signal: AbortSignal; record: CallRecord; passed: Passed },
  ): Promise<void> {
    const { out } = this.#components
    const onStatus = (status: number) => {
      passed.status = status
      record.answered(status)
    }
    for await (const part of readWatch(reply, this.#kept, onStatus)) {
      signal.throwIfAborted()
      passed.sent += part.kind === 'event' ? part.json.length : part.status.length
      const full =
        part.kind === 'event'
          ? out.send(eventMessage(watchId, part.json))
          : out.send(errorMessage(watchId, part.message, part.status))
      if (full) await full
    }
  }

  /** Sends the client the error with which its watch ended. */
  #fail(watchId: string, error: KasError, failedAt: FailedAt): void {
    const tracedAs = this.#components.traceId
    const request = { failedAt, accept: [], delivery: 'none', traceId: tracedAs, isDiscovery: false } as const
    const { body, status, traceId } = errorAnswer(error, request)
    this.#components.failed(error, traceId)
    const full = this.#components.out.send(errorMessage(watchId, status.message, String(body).trimEnd()))
    if (!full) return
    const { socket } = this.#components
    socket.pause() // a client that sends requests and does not read is not read either
    void full.then(() => socket.resume())
  }

  #endAll(): void {
    for (const watch of this.#watches.values()) watch.abort(new KasError({ code: 'CANCELLED' }))
    this.#watches.clear()
  }
}

/** @param isLeft - the client has ended the watch, or lost access */
function endOf({ status, sent }: Passed, error: KasError | undefined, isLeft: boolean): CallEnd {
  const isOver = error === undefined || error.code === 'WATCH_ENDED'
  const outcome = isOver ? 'answered' : isLeft && error.code === 'CANCELLED' ? 'left' : 'failed'
  const delivery = status === undefined ? 'none' : 'maybe'
  const failed = isOver ? {} : ({ reason: error.code, delivery } as const)
  return { status: status ?? error?.httpStatus, outcome, ...failed, received: 0, sent }
}

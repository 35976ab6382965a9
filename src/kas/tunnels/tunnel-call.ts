import { type Call, type Metadata, noMetadata, type Outcome, type Reply } from '../../call/call.ts'
import { payerOf } from '../../call/caller.ts'
import { KnownMessages } from '../../call/known-messages.ts'
import { dropped, KasError } from '../../lib/errors.ts'
import type { AgentStatus } from '../../proto/from-agent.ts'
import type { ServerStream } from '../../proto/grpc/server-stream.ts'
import { decodeConnectRequest, encodeConnectResponse } from '../../proto/reverse-tunnel.ts'
import { MessageOrder, type OrderTable } from '../../proto/wire/message-order.ts'

/**
 * End of a call: both sides are done and the stream ends, the tunnel waits for the next call, or the tunnel is broken.
 */
export type TunnelCallEnd = 'EOF' | 'idle' | KasError

export interface TunnelCallComponents {
  readonly stream: ServerStream
  /** the read that was pending while the tunnel was idle */
  readonly first: Promise<IteratorResult<Uint8Array>>
  readonly order: OrderTable
  /** Called when the call no longer owns the tunnel. */
  readonly onEnd: (end: TunnelCallEnd) => void
  /** Called when the agent sent more of a reply's status or metadata than is passed on. */
  readonly onCut: () => void
}

const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/** One call on a tunnel (doc/reference/tunnel-protocol.md 3.1). */
export class TunnelCall {
  readonly #components: TunnelCallComponents
  readonly #call: Call
  readonly #order: MessageOrder
  readonly #metadata = Promise.withResolvers<Metadata | undefined>()
  readonly #done = Promise.withResolvers<Outcome>()
  readonly #unbind: () => void
  #trailers: Metadata = noMetadata
  #status: KasError | undefined
  #outcome: Outcome | undefined
  /** all of the caller's messages were handed to the stream */
  #sent = false

  constructor(components: TunnelCallComponents, call: Call) {
    this.#components = components
    this.#call = call
    this.#order = new MessageOrder(components.order)
    this.#order.accept('descriptor')
    const { signal } = call
    const onAbort = () => this.#abort(incomingClosed(signal.reason))
    this.#unbind = () => signal.removeEventListener('abort', onAbort)
    components.stream.payBy(payerOf(call.caller))
    components.stream.receives(true)
    components.stream.onFault((error) => {
      if (dropped.has(error.code)) this.#abort(error) // no bytes before the fault are left to read
    })
    void components.stream.send(encodeConnectResponse.requestInfo(call.method, call.metadata))
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  }

  /** Sends the caller's messages, and returns the agent's reply. */
  run(): Reply {
    const { messages } = this.#call
    if (messages instanceof KnownMessages) this.#sendAll(messages)
    else void this.#pump(messages)
    let head: Promise<void> | undefined = this.#readHead().then(() => {
      head = undefined
    })
    const next = () => (head ? head.then(this.#next) : Promise.resolve(this.#next()))
    const reply = { next, return: () => this.#leave() }
    return {
      metadata: this.#metadata.promise,
      messages: { [Symbol.asyncIterator]: () => reply },
      done: this.#done.promise,
    }
  }

  /** Ends a watch in favour of another caller: the agent sees the caller leave. */
  recall(): void {
    this.#leaveWith(new KasError({ code: 'WATCH_RECALLED' }))
  }

  /** Ends the call as if the connection were lost. */
  lose(): void {
    this.#leaveWith(new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' }))
  }

  #leaveWith(error: KasError): void {
    if (!this.#outcome) this.#finish({ error, trailers: noMetadata }, incomingClosed(error))
  }

  /** Sends all messages from caller to agent; they are few, so nothing waits for room. */
  #sendAll({ all }: KnownMessages): void {
    try {
      for (const message of all) void this.#sendMessage(message)
      this.#closeSend()
    } catch (cause) {
      this.#abort(unreadable(cause))
    }
  }

  /** Sends messages from caller to agent, and waits for room. */
  async #pump(messages: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      for await (const message of messages) {
        if (this.#outcome) return
        const full = this.#sendMessage(message)
        if (full) await full
      }
    } catch (cause) {
      this.#abort(unreadable(cause))
      return
    }
    if (!this.#outcome) this.#closeSend()
  }

  #sendMessage(message: Uint8Array): Promise<void> | undefined {
    return this.#components.stream.send(message, encodeConnectResponse.messageHead(message.length))
  }

  #closeSend(): void {
    this.#sent = true
    void this.#components.stream.send(encodeConnectResponse.closeSend())
  }

  /** Reads the header from the agent, or the error in its place. */
  async #readHead(): Promise<void> {
    try {
      const result = await this.#components.first
      if (this.#outcome) return
      this.#accept(result)
      if (this.#order.last !== 'header') await this.#next() // an error: the caller gets nothing more
    } catch (error) {
      this.#abort(lossOf(error))
    }
  }

  /** Returns the next message from agent to caller, after the messages before it; the end once the call has ended. */
  #next = (): IteratorResult<Uint8Array> | Promise<IteratorResult<Uint8Array>> => {
    const { messages } = this.#components.stream
    try {
      while (!this.#outcome) {
        const bytes = messages.take()
        if (!bytes) return messages.next().then(this.#onResult, this.#onFailure)
        const message = this.#accept({ value: bytes, done: false })
        if (message) return { value: message, done: false }
      }
    } catch (error) {
      this.#abort(lossOf(error))
    }
    return end
  }

  #onResult = (
    result: IteratorResult<Uint8Array>,
  ): IteratorResult<Uint8Array> | Promise<IteratorResult<Uint8Array>> => {
    if (this.#outcome) return end
    try {
      const message = this.#accept(result)
      if (message) return { value: message, done: false }
    } catch (error) {
      this.#abort(KasError.from(error))
    }
    return this.#next()
  }

  #onFailure = (error: unknown): IteratorResult<Uint8Array> => {
    this.#abort(lossOf(error))
    return end
  }

  /** Ends the call: the caller reads no further. */
  #leave(): Promise<IteratorResult<Uint8Array>> {
    this.#abort(new KasError({ code: 'CANCELLED', detail: 'Incoming stream closed' }))
    return Promise.resolve(end)
  }

  /**
   * Accepts a message of the agent, if the order of messages allows it.
   *
   * @returns bytes for the caller; undefined: the message has none
   * @throws KasError INVALID_MESSAGE
   */
  #accept(result: IteratorResult<Uint8Array>): Uint8Array | undefined {
    if (result.done) {
      this.#order.accept('EOF')
      this.#settle('EOF')
      return undefined
    }
    const message = decodeConnectRequest(result.value)
    this.#order.accept(message.kind)
    if (message.kind === 'message') return message.data
    if (message.kind === 'descriptor') this.#again()
    else {
      if (message.isCut) this.#components.onCut()
      if (message.kind === 'header') this.#metadata.resolve(message.meta)
      else if (message.kind === 'trailer') this.#trailers = message.meta
      else this.#status = toError(message.status)
    }
    return undefined
  }

  /** Ends the call in order: the agent waits for the next one. */
  #again(): void {
    if (!this.#sent) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'descriptor before close_send was sent' })
    this.#settle('idle')
  }

  #settle(how: 'EOF' | 'idle'): void {
    this.#finish({ error: this.#status, trailers: this.#trailers }, how)
  }

  /** Breaks the tunnel, which stops the agent's work too; the caller gets the same error. */
  #abort(error: KasError): void {
    if (!this.#outcome) this.#finish({ error, trailers: noMetadata }, error)
  }

  #finish(outcome: Outcome, how: TunnelCallEnd): void {
    this.#outcome = outcome
    this.#unbind()
    this.#components.stream.receives(false)
    this.#components.stream.onFault(undefined)
    this.#components.stream.payBy(undefined)
    this.#metadata.resolve(undefined)
    this.#done.resolve(outcome)
    this.#components.onEnd(how)
  }
}

function toError({ code, message, details }: AgentStatus): KasError {
  return new KasError({ code: 'STATUS', grpc: code, message, ...(details ? { details } : {}) })
}

/** Maps an error: a tunnel that the agent resets during a call is lost like its connection, because its pod ends. */
function lossOf(error: unknown): KasError {
  const failure = KasError.from(error)
  if (failure.code !== 'CANCELLED') return failure
  return new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' }, { cause: failure })
}

function unreadable(cause: unknown): KasError {
  return new KasError({ code: 'CANCELLED', detail: 'read from incoming stream' }, { cause })
}

function incomingClosed(reason: unknown): KasError {
  const cause = KasError.from(reason)
  if (cause.code === 'DEADLINE_EXCEEDED') return cause
  return new KasError({ code: 'CANCELLED', detail: 'Incoming stream closed' }, { cause })
}

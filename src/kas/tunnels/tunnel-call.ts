import { type Call, type Metadata, noMetadata, type Outcome, type Reply } from '../../call/call.ts'
import { payerOf } from '../../call/caller.ts'
import { KnownMessages } from '../../call/known-messages.ts'
import { dropped, KasError } from '../../lib/errors.ts'
import type { AgentStatus } from '../../proto/from-agent.ts'
import type { ServerStream } from '../../proto/grpc/server-stream.ts'
import { decodeConnectRequest, encodeConnectResponse } from '../../proto/reverse-tunnel.ts'
import { MessageOrder, type OrderTable } from '../../proto/wire/message-order.ts'

/** How a call left its tunnel: both sides have said all; the tunnel waits for the next call; or it is broken. */
export type TunnelCallEnd = 'EOF' | 'idle' | KasError

export interface TunnelCallComponents {
  readonly stream: ServerStream
  /** the read that was outstanding while the tunnel was idle */
  readonly first: Promise<IteratorResult<Uint8Array>>
  readonly order: OrderTable
  /** the tunnel is not the call's any more */
  readonly onEnd: (end: TunnelCallEnd) => void
  /** what the agent said was beyond its bounds */
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
  /** all of the caller's messages are on their way */
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
      if (dropped.has(error.code)) this.#abort(error) // nothing is left to be read before it
    })
    void components.stream.send(encodeConnectResponse.requestInfo(call.method, call.metadata))
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  }

  /** Sends the caller's messages; the reply is the agent's. */
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

  /** Ends it in favour of another: the agent sees its caller leave. */
  recall(): void {
    this.#leaveWith(new KasError({ code: 'WATCH_RECALLED' }))
  }

  /** The same, as if the connection were lost. */
  lose(): void {
    this.#leaveWith(new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' }))
  }

  #leaveWith(error: KasError): void {
    if (!this.#outcome) this.#finish({ error, trailers: noMetadata }, incomingClosed(error))
  }

  /** Caller to agent; they are few, so nothing waits for room. */
  #sendAll({ all }: KnownMessages): void {
    try {
      for (const message of all) void this.#sendMessage(message)
      this.#closeSend()
    } catch (cause) {
      this.#abort(unreadable(cause))
    }
  }

  /** Caller to agent. */
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

  /** Agent to caller: the header, or the error in its place. */
  async #readHead(): Promise<void> {
    try {
      const result = await this.#components.first
      if (this.#outcome) return
      this.#accept(result)
      if (this.#order.last !== 'header') await this.#next() // an error: nothing for the caller follows
    } catch (error) {
      this.#abort(lossOf(error))
    }
  }

  /** Agent to caller: the next message, after all that stands before it; the end when the call has ended. */
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

  /** The caller reads no further. */
  #leave(): Promise<IteratorResult<Uint8Array>> {
    this.#abort(new KasError({ code: 'CANCELLED', detail: 'Incoming stream closed' }))
    return Promise.resolve(end)
  }

  /**
   * Takes what the agent said, in its order.
   *
   * @returns what is for the caller
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

  /** The agent waits for the next call. */
  #again(): void {
    if (!this.#sent) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'descriptor before close_send was sent' })
    this.#settle('idle')
  }

  #settle(how: 'EOF' | 'idle'): void {
    this.#finish({ error: this.#status, trailers: this.#trailers }, how)
  }

  /** The tunnel breaks, which stops the agent's work too; the caller gets the same error. */
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

/** A tunnel that the agent resets with a call on it is lost, as with its connection: its pod ends. */
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

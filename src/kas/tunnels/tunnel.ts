import { toBinary } from '@bufbuild/protobuf'
import { KasError } from '../../lib/errors.ts'
import { type Call, type Metadata, noMetadata, type Outcome, type Reply } from '../../proto/call.ts'
import { type Status, StatusSchema } from '../../proto/gen/google/rpc/status_pb.ts'
import type { ServerStream } from '../../proto/grpc/server-session.ts'
import { KnownMessages } from '../../proto/known-messages.ts'
import { MessageOrder } from '../../proto/message-order.ts'
import { connectRequestOrder, decodeConnectRequest, encodeConnectResponse } from '../../proto/reverse-tunnel.ts'
import type { AgentConnection } from './agent-connection.ts'

/**
 * - `idle`: the registry owns it; nothing was sent on it
 * - `taken`: a router owns it; it may still be given back unused
 * - `forwarding`: a call owns it, to its end
 * - `ended`: nobody does
 */
export type TunnelState = 'idle' | 'taken' | 'forwarding' | 'ended'

const steps: Record<TunnelState, readonly TunnelState[]> = {
  idle: ['taken', 'ended'],
  taken: ['idle', 'forwarding', 'ended'],
  forwarding: ['ended'],
  ended: [],
}

const ready = Promise.resolve()
const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/** One Connect stream of an agent: carries one call (wire-protocol 3). */
export class Tunnel {
  readonly connection: AgentConnection
  /** `/package.Service/Method`, all that the agent's descriptor names */
  readonly methods: ReadonlySet<string>
  /** how the Connect stream is to end: resolves for OK, rejects with a KasError for its status */
  readonly ended: Promise<void>
  readonly #stream: ServerStream
  readonly #end = Promise.withResolvers<void>()
  readonly #order = new MessageOrder(connectRequestOrder)
  readonly #metadata = Promise.withResolvers<Metadata>()
  readonly #done = Promise.withResolvers<Outcome>()
  #trailers: Metadata = noMetadata
  #status: KasError | undefined
  #state: TunnelState = 'idle'
  #outcome: Outcome | undefined
  #unbind: (() => void) | undefined
  /** the read that is outstanding while the tunnel is idle, when nothing must come; the call's first */
  #first: Promise<IteratorResult<Uint8Array>> | undefined

  /** @param stream - its descriptor has been read */
  constructor(stream: ServerStream, connection: AgentConnection, methods: ReadonlySet<string>) {
    this.connection = connection
    this.methods = methods
    this.ended = this.#end.promise
    this.#stream = stream
    this.#order.accept('descriptor')
    this.#first = stream.messages.next()
    this.#first.then(
      (result) => this.#onIdleMessage(result),
      (error: unknown) => this.#onLost(error),
    )
  }

  get state(): TunnelState {
    return this.#state
  }

  take(): void {
    this.#step('taken')
  }

  /** Back to idle, unused. */
  giveBack(): void {
    this.#step('idle')
  }

  /** Ends an idle tunnel with OK: the agent opens another at once. */
  retire(): void {
    this.#step('ended')
    this.#end.resolve()
  }

  /** Carries `call`, whose owner it is from now on. */
  forward(call: Call): Reply {
    this.#step('forwarding')
    this.connection.callStarted()
    void this.#stream.send(encodeConnectResponse.requestInfo(call.method, call.metadata))
    const onAbort = () => this.#abort(incomingClosed(call.signal.reason))
    if (call.signal.aborted) onAbort()
    else call.signal.addEventListener('abort', onAbort, { once: true })
    this.#unbind = () => call.signal.removeEventListener('abort', onAbort)
    if (call.messages instanceof KnownMessages) this.#sendAll(call.messages)
    else void this.#pump(call.messages)
    let head: Promise<void> | undefined = this.#readHead().then(() => {
      head = undefined
    })
    const next = () => (head ? head.then(this.#next) : Promise.resolve(this.#next()))
    const messages = { next, return: () => this.#leave() }
    return {
      ready,
      metadata: this.#metadata.promise,
      messages: { [Symbol.asyncIterator]: () => messages },
      done: this.#done.promise,
    }
  }

  /** Caller to agent; they are few, so nothing waits for room. */
  #sendAll({ all }: KnownMessages): void {
    try {
      for (const message of all) void this.#sendMessage(message)
      void this.#stream.send(encodeConnectResponse.closeSend())
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
    if (!this.#outcome) void this.#stream.send(encodeConnectResponse.closeSend())
  }

  #sendMessage(message: Uint8Array): Promise<void> | undefined {
    return this.#stream.send(message, encodeConnectResponse.messageHead(message.length))
  }

  /** Agent to caller: the header, or the error in its place. */
  async #readHead(): Promise<void> {
    const first = this.#first
    this.#first = undefined
    try {
      const result = await first
      if (!result || this.#outcome) return
      this.#accept(result)
      if (this.#order.last !== 'header') await this.#next() // an error: only EOF may follow
    } catch (error) {
      this.#abort(KasError.from(error))
    }
  }

  /** Agent to caller: the next message, after all that stands before it; the end when the call has ended. */
  #next = (): IteratorResult<Uint8Array> | Promise<IteratorResult<Uint8Array>> => {
    const { messages } = this.#stream
    try {
      while (!this.#outcome) {
        const bytes = messages.take()
        if (!bytes) return messages.next().then(this.#onResult, this.#onFailure)
        const message = this.#accept({ value: bytes, done: false })
        if (message) return { value: message, done: false }
      }
    } catch (error) {
      this.#abort(KasError.from(error))
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
    this.#abort(KasError.from(error))
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
      this.#settle()
      return undefined
    }
    const message = decodeConnectRequest(result.value)
    this.#order.accept(message.kind)
    if (message.kind === 'message') return message.data
    if (message.kind === 'header') this.#metadata.resolve(message.meta)
    else if (message.kind === 'trailer') this.#trailers = message.meta
    else if (message.kind === 'error') this.#status = toError(message.status)
    return undefined
  }

  #onIdleMessage(result: IteratorResult<Uint8Array>): void {
    if (this.#state === 'forwarding' || this.#state === 'ended') return
    this.#step('ended')
    if (result.done) this.#end.resolve()
    else this.#end.reject(new KasError({ code: 'INVALID_MESSAGE', detail: 'a message on an idle tunnel' }))
  }

  #onLost(error: unknown): void {
    if (this.#state === 'forwarding' || this.#state === 'ended') return
    this.#step('ended')
    this.#end.reject(error)
  }

  /** The agent has said all: Connect ends with OK. */
  #settle(): void {
    this.#finish({ ...(this.#status ? { error: this.#status } : {}), trailers: this.#trailers })
    this.#end.resolve()
  }

  /** Connect ends with an error, which stops the agent's work too; the caller gets the same. */
  #abort(error: KasError): void {
    if (this.#outcome) return
    this.#finish({ error, trailers: noMetadata })
    this.#end.reject(error)
  }

  #finish(outcome: Outcome): void {
    this.#outcome = outcome
    this.#unbind?.()
    this.#step('ended')
    this.connection.callEnded()
    this.#metadata.resolve(noMetadata)
    this.#done.resolve(outcome)
  }

  #step(to: TunnelState): void {
    if (!steps[this.#state].includes(to)) throw new Error(`a tunnel cannot go from ${this.#state} to ${to}`)
    this.#state = to
  }
}

function toError(status: Status): KasError {
  const details = status.details.length > 0 ? { details: toBinary(StatusSchema, status) } : {}
  return new KasError({ code: 'STATUS', grpc: status.code, message: status.message, ...details })
}

function unreadable(cause: unknown): KasError {
  return new KasError({ code: 'CANCELLED', detail: 'read from incoming stream' }, { cause })
}

function incomingClosed(reason: unknown): KasError {
  const cause = KasError.from(reason)
  if (cause.code === 'DEADLINE_EXCEEDED') return cause
  return new KasError({ code: 'CANCELLED', detail: 'Incoming stream closed' }, { cause })
}

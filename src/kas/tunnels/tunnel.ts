import { toBinary } from '@bufbuild/protobuf'
import { KasError } from '../../lib/errors.ts'
import { type Call, type Metadata, noMetadata, type Outcome, type Reply } from '../../proto/call.ts'
import { type Status, StatusSchema } from '../../proto/gen/google/rpc/status_pb.ts'
import type { ServerStream } from '../../proto/grpc/server-session.ts'
import {
  type ConnectRequest,
  connectRequestOrder,
  decodeConnectRequest,
  encodeConnectResponse,
  MessageOrder,
} from '../../proto/reverse-tunnel.ts'
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
    void this.#done.promise.then(() => call.signal.removeEventListener('abort', onAbort))
    void this.#pump(call.messages)
    const head = this.#readHead()
    return { ready, metadata: this.#metadata.promise, messages: this.#read(head), done: this.#done.promise }
  }

  /** Caller to agent. */
  async #pump(messages: AsyncIterable<Uint8Array>): Promise<void> {
    try {
      for await (const message of messages) {
        if (this.#outcome) return
        const full = this.#stream.send(message, encodeConnectResponse.messageHead(message.length))
        if (full) await full
      }
    } catch (cause) {
      this.#abort(new KasError({ code: 'CANCELLED', detail: 'read from incoming stream' }, { cause }))
      return
    }
    if (!this.#outcome) void this.#stream.send(encodeConnectResponse.closeSend())
  }

  /** Agent to caller: the header, or the error in its place. */
  async #readHead(): Promise<void> {
    const first = await this.#receive()
    if (first?.kind === 'header') this.#metadata.resolve(first.meta)
    else if (first) await this.#receive() // an error: only EOF may follow
  }

  async *#read(head: Promise<void>): AsyncGenerator<Uint8Array, void, void> {
    try {
      await head
      while (!this.#outcome) {
        const message = await this.#receive()
        if (message?.kind === 'message') yield message.data
      }
    } finally {
      if (!this.#outcome) this.#abort(new KasError({ code: 'CANCELLED', detail: 'Incoming stream closed' }))
    }
  }

  /** The next message in its order; undefined when the call has ended, for better or worse. */
  async #receive(): Promise<ConnectRequest | undefined> {
    if (this.#outcome) return undefined
    try {
      const next = this.#first ?? this.#stream.messages.next()
      this.#first = undefined
      const result = await next
      if (result.done) {
        this.#order.accept('EOF')
        this.#settle()
        return undefined
      }
      const message = decodeConnectRequest(result.value)
      this.#order.accept(message.kind)
      if (message.kind === 'trailer') this.#trailers = message.meta
      else if (message.kind === 'error') this.#status = toError(message.status)
      return message
    } catch (error) {
      this.#abort(KasError.from(error))
      return undefined
    }
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

function incomingClosed(reason: unknown): KasError {
  const cause = KasError.from(reason)
  if (cause.code === 'DEADLINE_EXCEEDED') return cause
  return new KasError({ code: 'CANCELLED', detail: 'Incoming stream closed' }, { cause })
}

import { create } from '@bufbuild/protobuf'
import { type AgentId, type Call, type Metadata, noMetadata, type Outcome } from '../../call/call.ts'
import { kasCaller } from '../../call/caller.ts'
import { KasError } from '../../lib/errors.ts'
import { StatusSchema } from '../../proto/gen/google/rpc/status_pb.ts'
import { AgentDescriptorSchema } from '../../proto/gen/info_pb.ts'
import type { ClientStream } from '../../proto/grpc/client-session.ts'
import {
  type ConnectResponse,
  decodeConnectResponse,
  encodeConnectRequest,
  reusedConnectResponseOrder,
} from '../../proto/reverse-tunnel.ts'
import { MessageOrder } from '../../proto/wire/message-order.ts'
import { type Serve, type ServeReply, SplitMessage } from './serve.ts'

type Message = Uint8Array | SplitMessage

/** agentk serves only its own agent, so nothing here needs the id. */
const ownAgent = 0n as AgentId

const emptyHeader = encodeConnectRequest.header(noMetadata)
const emptyDescriptor = encodeConnectRequest.descriptor(create(AgentDescriptorSchema))
const emptyTrailer = encodeConnectRequest.trailer(noMetadata)

/** End of a tunnel; `error` as kas sent it, absent: OK. */
export interface TunnelEnd {
  /** true: it ended with its call; false: while it waited for one */
  readonly used: boolean
  readonly error?: KasError | undefined
}

export interface TunnelComponents {
  /** a new Connect stream */
  readonly stream: ClientStream
  /** serves a call; throws a KasError for a call that it refuses before the first message */
  readonly dispatch: Serve
  /** called with an error that is no KasError, which is a fault of agentk */
  readonly onFault: (error: unknown, method: string) => void
}

/**
 * The agent's side of one Connect stream. It carries one call (doc/reference/tunnel-protocol.md 3.2) or, if kas
 * supports that, one call after another (doc/decisions/0011).
 *
 * idle: kas owns the next step, request_info. active: the call owns the stream. ended: the slot is free again, while
 * kas ends the stream.
 */
export class Tunnel {
  readonly #stream: ClientStream
  readonly #components: TunnelComponents
  readonly #messages: AsyncIterator<Uint8Array>
  readonly #order = new MessageOrder(reusedConnectResponseOrder)
  #call: TunnelCall | undefined
  #ended = false

  constructor(components: TunnelComponents) {
    this.#components = components
    this.#stream = components.stream
    this.#messages = components.stream.messages[Symbol.asyncIterator]()
    void this.#stream.done.then(({ error }) => {
      this.#ended = true
      this.#call?.end(error)
    })
  }

  /** Announces the methods, waits for a call and serves it, then further calls if the tunnel may. Never rejects. */
  async serve(
    descriptor: Uint8Array,
    events: {
      /** called when kas has given the tunnel a call */
      active(): void
      /** called when the call has ended. @returns true if the tunnel waits for another one */
      idle(): boolean
    },
  ): Promise<TunnelEnd> {
    void this.#stream.send(descriptor)
    do {
      const info = await this.#requestInfo()
      if (!info) {
        const { error } = await this.#stream.done
        return { used: false, error }
      }
      events.active()
      const call = new TunnelCall(info.methodName, info.meta, () => this.#next())
      this.#call = call
      await this.#answer(call)
      call.finished = true
      this.#stream.receives(false)
    } while (this.#isWhole() && events.idle() && this.#goOn())
    this.#stream.end()
    void this.#discard()
    return { used: true }
  }

  /** True if both sides have sent all of the call, and the stream goes on. */
  #isWhole(): boolean {
    return this.#order.last === 'closeSend' && !this.#ended
  }

  /** Informs kas that this tunnel waits for the next call. */
  #goOn(): true {
    void this.#stream.send(emptyDescriptor)
    return true
  }

  /** Ends an idle tunnel, and cuts the call of an active one. */
  cancel(reason?: KasError): void {
    this.#stream.cancel(reason)
  }

  async #requestInfo(): Promise<Extract<ConnectResponse, { kind: 'requestInfo' }> | undefined> {
    const { value, done } = await this.#messages.next()
    if (done) return undefined
    try {
      const message = this.#decode(value)
      return message.kind === 'requestInfo' ? message : undefined
    } catch (error) {
      this.#stream.cancel(KasError.from(error))
      return undefined
    }
  }

  /** Reads the next message of the call; undefined: the half-close. @throws KasError */
  async #next(): Promise<Uint8Array | undefined> {
    if (this.#order.last === 'closeSend') return undefined
    const { value, done } = await this.#messages.next()
    if (done)
      throw (await this.#stream.done).error ?? new KasError({ code: 'CANCELLED', detail: 'kas ended the tunnel' })
    let message: ConnectResponse
    try {
      message = this.#decode(value)
    } catch (error) {
      this.#stream.cancel(KasError.from(error))
      throw error
    }
    return message.kind === 'message' ? message.data : undefined
  }

  #decode(bytes: Uint8Array): ConnectResponse {
    const message = decodeConnectResponse(bytes)
    this.#order.accept(message.kind)
    return message
  }

  async #answer(call: TunnelCall): Promise<void> {
    let error: KasError | undefined
    try {
      error = await this.#send(await this.#components.dispatch(call))
    } catch (thrown) {
      error = KasError.from(thrown)
      if (error.code === 'INTERNAL') this.#components.onFault(thrown, call.method)
    }
    if (error) void this.#stream.send(encodeStatus(error))
  }

  /**
   * Sends header, message*, trailer. A call that fails before its first message sends its error alone, so the header
   * waits for the first message.
   *
   * @returns the error that is still to be sent
   */
  async #send(reply: ServeReply): Promise<KasError | undefined> {
    const messages = reply.messages[Symbol.asyncIterator]()
    const first = await messages.next()
    if (first.done) {
      const { error } = await reply.done
      if (error) return error
    }
    const metadata = (await reply.metadata) ?? noMetadata
    void this.#stream.send(isEmpty(metadata) ? emptyHeader : encodeConnectRequest.header(metadata))
    const { error, trailers } = (await this.#copy(first, messages)) ?? (await reply.done)
    void this.#stream.send(isEmpty(trailers) ? emptyTrailer : encodeConnectRequest.trailer(trailers))
    return error
  }

  /** @returns the outcome if a message could not be sent because it is too large; undefined: all are sent */
  async #copy(first: IteratorResult<Message>, messages: AsyncIterator<Message>): Promise<Outcome | undefined> {
    let next = first
    try {
      while (!next.done) {
        const room = this.#sendMessage(next.value)
        if (room) await room
        next = await messages.next()
      }
      return undefined
    } catch (error) {
      await messages.return?.()
      return { error: KasError.from(error), trailers: noMetadata }
    }
  }

  #sendMessage(message: Message): Promise<void> | undefined {
    if (!(message instanceof SplitMessage)) {
      return this.#stream.send(message, encodeConnectRequest.messageHead(message.length))
    }
    const head = Buffer.concat([encodeConnectRequest.messageHead(message.length), message.head])
    const [first, ...rest] = message.payload as [Uint8Array, ...Uint8Array[]]
    return this.#stream.send(first, head, rest)
  }

  /** Reads the rest that kas sends, so that its stream can end. */
  async #discard(): Promise<void> {
    while (!(await this.#messages.next()).done);
  }
}

class TunnelCall implements Call, AsyncIterableIterator<Uint8Array> {
  readonly agentId = ownAgent
  readonly safety = 'unsafe'
  readonly caller = kasCaller
  readonly method: string
  readonly metadata: Metadata
  readonly messages = this
  /** the reply is complete: the end of the stream changes nothing any more */
  finished = false
  readonly #controller = new AbortController()
  readonly #read: () => Promise<Uint8Array | undefined>

  constructor(method: string, metadata: Metadata, read: () => Promise<Uint8Array | undefined>) {
    this.method = method
    this.metadata = metadata
    this.#read = read
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Aborts the call at the end of the stream, unless it has ended: its reply has no reader any more. */
  end(error: KasError | undefined): void {
    if (this.finished) return
    this.#controller.abort(error ?? new KasError({ code: 'CANCELLED', detail: 'kas ended the tunnel' }))
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    const value = await this.#read()
    return value ? { value, done: false } : { value: undefined, done: true }
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}

function isEmpty(metadata: Metadata): boolean {
  return Object.keys(metadata).length === 0
}

function encodeStatus(error: KasError): Uint8Array {
  return encodeConnectRequest.error(create(StatusSchema, { code: error.grpcCode, message: error.message }))
}

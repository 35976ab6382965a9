import { once } from 'node:events'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { create } from '@bufbuild/protobuf'
import type { Outcome } from '../../src/call/call.ts'
import { AgentDescriptorSchema } from '../../src/proto/gen/info_pb.ts'
import { ClientSession, type ClientStream } from '../../src/proto/grpc/client-session.ts'
import {
  type ConnectResponse,
  connectMethod,
  decodeConnectResponse,
  encodeConnectRequest,
} from '../../src/proto/reverse-tunnel.ts'

export const echoMethod = '/test.Echo/Echo'

/** An agent whose every message the test decides. */
export class FakeAgent {
  readonly socket: Duplex
  readonly session: ClientSession
  readonly #metadata: Record<string, string[]>

  static async dial(port: number, token = 'good', metadata: Record<string, string[]> = {}): Promise<FakeAgent> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    return new FakeAgent(socket, { authorization: [`Bearer ${token}`], ...metadata })
  }

  constructor(socket: Duplex, metadata: Record<string, string[]>) {
    this.socket = socket
    this.#metadata = metadata
    this.session = ClientSession.over(socket, { authority: 'kas.test:8150', scheme: 'http' })
  }

  /** Opens one Connect stream, and sends its descriptor. */
  open(methods: string[] = [echoMethod]): FakeTunnel {
    const tunnel = this.openSilently()
    tunnel.describe(methods)
    return tunnel
  }

  /** Opens one Connect stream without any message. */
  openSilently(): FakeTunnel {
    return new FakeTunnel(this.session.open({ method: connectMethod, metadata: this.#metadata }))
  }

  close(): void {
    this.session.destroy()
  }
}

export class FakeTunnel {
  readonly stream: ClientStream
  readonly #messages: AsyncIterator<Uint8Array>

  constructor(stream: ClientStream) {
    this.stream = stream
    this.#messages = stream.messages[Symbol.asyncIterator]()
  }

  get done(): Promise<Outcome> {
    return this.stream.done
  }

  describe(methods: string[]): void {
    const services = methods.map((path) => {
      const [, name = '', method = ''] = path.split('/')
      return { name, methods: [{ name: method }] }
    })
    this.send(encodeConnectRequest.descriptor(create(AgentDescriptorSchema, { services })))
  }

  send(message: Uint8Array): void {
    void this.stream.send(message)
  }

  message(data: Uint8Array): void {
    void this.stream.send(data, encodeConnectRequest.messageHead(data.length))
  }

  error(code: number, message: string): void {
    this.send(encodeConnectRequest.error({ $typeName: 'google.rpc.Status', code, message, details: [] }))
  }

  /** The next message of kas; undefined when kas ended the stream. */
  async next(): Promise<ConnectResponse | undefined> {
    const result = await this.#messages.next()
    return result.done ? undefined : decodeConnectResponse(result.value)
  }

  /** Serves one call as an echo: header, each message back, trailer. */
  async serveEcho(onCall?: (call: ConnectResponse) => void): Promise<void> {
    for (let message = await this.next(); message; message = await this.next()) {
      if (message.kind === 'requestInfo') {
        onCall?.(message)
        this.send(encodeConnectRequest.header({ served: ['yes'] }))
      } else if (message.kind === 'message') this.message(message.data)
      else {
        this.send(encodeConnectRequest.trailer({ ended: ['yes'] }))
        this.stream.end()
      }
    }
  }
}

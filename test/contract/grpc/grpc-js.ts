import { once } from 'node:events'
import * as grpc from '@grpc/grpc-js'
import type { Metadata } from '../../../src/call/call.ts'
import { type ClientCall, Failure, type Server, type ServerCall, type Side, type TestHandler } from './sides.ts'

const raw = (message: Buffer) => message
const asBuffer = (message: Uint8Array) => Buffer.from(message.buffer, message.byteOffset, message.length)
const gzipAlgorithm = 2

/** @grpc/grpc-js, the reference implementation. */
export const grpcJs: Side = {
  name: 'grpc-js',

  async serve(handlers, options = {}) {
    const server = new grpc.Server({
      ...(options.gzip ? { 'grpc.default_compression_algorithm': gzipAlgorithm } : {}),
    })
    for (const [method, handler] of Object.entries(handlers)) {
      server.register(
        method,
        (call: grpc.ServerDuplexStream<Buffer, Buffer>) => void run(handler, call),
        raw,
        raw,
        'bidi',
      )
    }
    const port = await new Promise<number>((resolve, reject) => {
      server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      )
    })
    return {
      port,
      goaway: () => server.drain(`127.0.0.1:${port}`, 60_000),
      close: async () => server.forceShutdown(),
    } satisfies Server
  },

  async connect(port, options = {}) {
    const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.initial_reconnect_backoff_ms': 20,
      ...(options.gzip ? { 'grpc.default_compression_algorithm': gzipAlgorithm } : {}),
    })
    return {
      call: async (method, { metadata, timeoutMs } = {}) => {
        const deadline = timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs }
        return clientCall(client.makeBidiStreamRequest(method, raw, raw, toGrpc(metadata ?? {}), deadline))
      },
      close: async () => client.close(),
    }
  },
}

function clientCall(stream: grpc.ClientDuplexStream<Buffer, Buffer>): ClientCall {
  stream.on('error', () => undefined) // 'status' reports it
  const metadata = Promise.withResolvers<Metadata>()
  stream.once('metadata', (received: grpc.Metadata) => metadata.resolve(fromGrpc(received)))
  const done = new Promise<{ code: number; message: string; trailers: Metadata }>((resolve) => {
    stream.once('status', ({ code, details, metadata: trailers }: grpc.StatusObject) => {
      metadata.resolve({})
      resolve({ code, message: details, trailers: fromGrpc(trailers) })
    })
  })
  return {
    metadata: metadata.promise,
    messages: quiet(stream),
    done,
    send: (message) => (stream.write(asBuffer(message)) ? undefined : drained(stream)),
    end: () => stream.end(),
    cancel: () => stream.cancel(),
  }
}

async function* quiet(stream: AsyncIterable<Buffer>): AsyncIterable<Uint8Array> {
  try {
    yield* stream
  } catch {
    // 'status' reports it
  }
}

async function run(handler: TestHandler, call: grpc.ServerDuplexStream<Buffer, Buffer>): Promise<void> {
  const { promise: left, resolve } = Promise.withResolvers<void>()
  call.once('cancelled', () => resolve())
  call.on('error', () => undefined)
  try {
    const trailers = await handler({
      metadata: fromGrpc(call.metadata),
      messages: call.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>,
      sendMetadata: (metadata) => call.sendMetadata(toGrpc(metadata)),
      send: (message) =>
        call.write(asBuffer(message)) || call.cancelled ? undefined : Promise.race([drained(call), left]),
      left,
    } satisfies ServerCall)
    call.end(toGrpc(trailers))
  } catch (error) {
    const { code, message } = error instanceof Failure ? error : { code: grpc.status.INTERNAL, message: String(error) }
    call.emit('error', Object.assign(new Error(message), { code, details: message }))
  }
}

async function drained(stream: NodeJS.EventEmitter): Promise<void> {
  await once(stream, 'drain').catch(() => undefined)
}

function toGrpc(metadata: Metadata): grpc.Metadata {
  const result = new grpc.Metadata()
  for (const [key, values] of Object.entries(metadata)) {
    for (const value of values) result.add(key, key.endsWith('-bin') ? Buffer.from(value, 'base64') : value)
  }
  return result
}

function fromGrpc(metadata: grpc.Metadata): Metadata {
  return Object.fromEntries(
    Object.keys(metadata.getMap()).map((key) => [
      key,
      metadata.get(key).map((value) => (typeof value === 'string' ? value : value.toString('base64'))),
    ]),
  )
}

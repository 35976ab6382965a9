import * as grpc from '@grpc/grpc-js'
import { RailsCall } from './rails-call.ts'

/** Handler that grpc-js looks up by a call's path. */
interface RawHandler {
  readonly path: string
  readonly type: 'bidi'
  readonly func: () => void
  readonly serialize: (message: Uint8Array) => Buffer
  readonly deserialize: (bytes: Buffer) => Uint8Array
}

/**
 * Private part of grpc-js, whose version is pinned: it has no public handler for methods that are unknown beforehand.
 */
interface WithHandlers {
  _retrieveHandler(path: string): RawHandler
}

/**
 * Creates a grpc-js server that hands every call to `run` as bytes, whatever its method, because only agents know which
 * methods exist. A bidirectional handler also serves the other kinds of calls.
 */
export function everyMethodServer(options: grpc.ServerOptions, run: (call: RailsCall) => void): grpc.Server {
  const interceptor: grpc.ServerInterceptor = ({ path }, next) => new HandledCall(path, next, run)
  const server = new grpc.Server({ ...options, interceptors: [interceptor] })
  const internals = server as unknown as WithHandlers
  if (typeof internals._retrieveHandler !== 'function') throw new Error('this version of grpc-js is not the pinned one')
  internals._retrieveHandler = rawHandler
  return server
}

/** Ends the chain of interceptors, so that grpc-js' own streams, which read ahead, do not get the call. */
class HandledCall extends grpc.ServerInterceptingCall {
  readonly #path: string
  readonly #next: grpc.ServerInterceptingCallInterface
  readonly #run: (call: RailsCall) => void

  constructor(path: string, next: grpc.ServerInterceptingCallInterface, run: (call: RailsCall) => void) {
    super(next)
    this.#path = path
    this.#next = next
    this.#run = run
  }

  override start(): void {
    RailsCall.start(this.#path, this.#next, this.#run)
  }
}

function rawHandler(path: string): RawHandler {
  return { path, type: 'bidi', func: notReached, serialize: asBuffer, deserialize: asIs }
}

function notReached(): void {
  throw new Error('calls are handled by the interceptor')
}

function asBuffer(message: Uint8Array): Buffer {
  return Buffer.from(message.buffer, message.byteOffset, message.length)
}

function asIs(bytes: Buffer): Uint8Array {
  return bytes
}

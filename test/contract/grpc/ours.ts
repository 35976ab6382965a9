import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { KasError } from '../../../src/lib/errors.ts'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import type { SessionLimits } from '../../../src/proto/grpc/limits.ts'
import { type ServerSession, serveSession } from '../../../src/proto/grpc/server-session.ts'
import type { Handler } from '../../../src/proto/grpc/server-stream.ts'
import { type Client, type ClientCall, Failure, type Server, type Side, type TestHandler } from './sides.ts'

const unlimited = { maxMessageBytes: 64 * 1024 * 1024 }

/** Our implementation (src/proto/grpc) over plain TCP. */
export const ours: Side = {
  name: 'ours',
  serve: (handlers, options) => serveOurs(handlers, options?.sendAnything ? unlimited : {}),
  connect: (port, options) => Promise.resolve(new OurClient(port, options?.sendAnything ? unlimited : {})),
}

/** Our implementation as replicas use it with each other. */
export const oursWithBodyTrailers: Side = {
  ...ours,
  name: 'ours, trailers in the body',
  connect: (port, options) => Promise.resolve(new OurClient(port, options?.sendAnything ? unlimited : {}, true)),
}

export async function serveOurs(
  handlers: Readonly<Record<string, TestHandler>>,
  limits: Partial<SessionLimits> = {},
): Promise<Server & { sessions: Set<ServerSession> }> {
  const sessions = new Set<ServerSession>()
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => undefined)
    const session = serveSession(socket, (method) => adapt(handlers[method]), { limits })
    sessions.add(session)
    void session.closed.then(() => sessions.delete(session))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    sessions,
    goaway: () => sessions.forEach((session) => void session.close()),
    async close() {
      server.close()
      for (const session of sessions) session.destroy()
      await once(server, 'close')
    },
  }
}

function adapt(handler: TestHandler | undefined): Handler | undefined {
  return (
    handler &&
    (async (stream) => {
      const { promise: left, resolve } = Promise.withResolvers<void>()
      stream.signal.addEventListener('abort', () => resolve(), { once: true })
      try {
        return await handler({
          metadata: stream.metadata,
          messages: stream.messages,
          sendMetadata: (metadata) => stream.sendMetadata(metadata),
          send: (message) => stream.send(message),
          left,
        })
      } catch (error) {
        if (!(error instanceof Failure)) throw error
        throw new KasError({ code: 'STATUS', grpc: error.code, message: error.message })
      }
    })
  )
}

class OurClient implements Client {
  readonly #port: number
  readonly #limits: Partial<SessionLimits>
  readonly #bodyTrailers: boolean
  readonly #all = new Set<ClientSession>()
  #session: ClientSession | undefined

  constructor(port: number, limits: Partial<SessionLimits>, bodyTrailers = false) {
    this.#port = port
    this.#limits = limits
    this.#bodyTrailers = bodyTrailers
  }

  async call(
    method: string,
    options: { metadata?: Record<string, string[]>; timeoutMs?: number } = {},
  ): Promise<ClientCall> {
    if (!this.#session || this.#session.draining) {
      const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true })
      await once(socket, 'connect')
      socket.on('error', () => undefined)
      this.#session = ClientSession.over(socket, {
        authority: `127.0.0.1:${this.#port}`,
        scheme: 'http',
        limits: this.#limits,
        bodyTrailers: this.#bodyTrailers,
      })
      this.#all.add(this.#session)
    }
    const stream = this.#session.open({ method, ...options })
    return {
      metadata: stream.metadata,
      messages: stream.messages,
      done: stream.done.then(({ error, trailers }) => ({
        code: error?.grpcCode ?? 0,
        message: error?.message ?? '',
        trailers,
      })),
      send: (message) => stream.send(message),
      end: () => stream.end(),
      cancel: () => stream.cancel(),
    }
  }

  async close(): Promise<void> {
    for (const session of this.#all) session.destroy()
    await Promise.all([...this.#all].map((session) => session.closed))
  }
}

import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import * as grpc from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { Code, KasError } from '../../../src/lib/errors.ts'
import {
  type RegisterRequest,
  RegisterRequestSchema,
  RegisterResponseSchema,
} from '../../../src/proto/gen/agent_registrar_pb.ts'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import { type ServerSession, serveSession } from '../../../src/proto/grpc/server-session.ts'
import type { Handler } from '../../../src/proto/grpc/server-stream.ts'
import { callUnary } from '../../../src/proto/unary.ts'
import { unaryHandler } from '../../support/unary-handler.ts'

/** Typed unary methods, compared with those of grpc-js. */

t.setTimeout(30_000)
const method = '/gitlab.agent.agent_registrar.rpc.AgentRegistrar/Register'
const request = create(RegisterRequestSchema, { podId: 2n ** 62n, agentMeta: { version: 'v1', podName: 'p' } })
const asBuffer = (bytes: Uint8Array) => Buffer.from(bytes)
const raw = (bytes: Buffer) => bytes

async function serveOurs(t: Test, handler: Handler): Promise<number> {
  const sessions = new Set<ServerSession>()
  const server = createServer(
    (socket) => void sessions.add(serveSession(socket, (name) => (name === method ? handler : undefined))),
  )
  server.listen(0, '127.0.0.1')
  t.teardown(() => {
    for (const session of sessions) session.destroy()
    return new Promise<void>((resolve) => server.close(() => resolve()))
  })
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function serveGrpcJs(t: Test, handler: grpc.handleUnaryCall<Buffer, Buffer>): Promise<number> {
  const server = new grpc.Server()
  server.register(method, handler, raw, raw, 'unary')
  t.teardown(() => server.forceShutdown())
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    )
  })
}

async function ourSession(t: Test, port: number): Promise<ClientSession> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const session = ClientSession.over(socket, { authority: `127.0.0.1:${port}`, scheme: 'http' })
  t.teardown(() => session.destroy())
  return session
}

function callGrpcJs(t: Test, port: number, bytes: Uint8Array): Promise<Buffer | undefined> {
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure())
  t.teardown(() => client.close())
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(method, raw, raw, asBuffer(bytes), (error, answer?: Buffer) =>
      error ? reject(error) : resolve(answer),
    )
  })
}

t.test('grpc-js calls a typed handler', async (t) => {
  let got: RegisterRequest | undefined
  const port = await serveOurs(
    t,
    unaryHandler(RegisterRequestSchema, RegisterResponseSchema, async (message) => {
      got = message
      return create(RegisterResponseSchema)
    }),
  )
  const answer = await callGrpcJs(t, port, toBinary(RegisterRequestSchema, request))
  t.equal(answer?.length, 0)
  t.match(got, { podId: 2n ** 62n, agentMeta: { version: 'v1', podName: 'p' } })
  await t.rejects(callGrpcJs(t, port, Buffer.from([0xff])), { code: Code.INVALID_ARGUMENT }, 'malformed')
})

t.test('a typed handler that throws gives its status, and what it did not expect stays inside', async (t) => {
  const port = await serveOurs(
    t,
    unaryHandler(RegisterRequestSchema, RegisterResponseSchema, async ({ podId }) => {
      if (podId === 0n) throw new Error('a secret')
      throw new KasError({ code: 'FORBIDDEN' })
    }),
  )
  await t.rejects(callGrpcJs(t, port, toBinary(RegisterRequestSchema, request)), {
    code: Code.PERMISSION_DENIED,
    details: 'forbidden',
  })
  await t.rejects(callGrpcJs(t, port, new Uint8Array(0)), { code: Code.INTERNAL, details: 'Internal error' })
})

t.test('a unary method takes one message, no more and no fewer', async (t) => {
  const handler = unaryHandler(RegisterRequestSchema, RegisterResponseSchema, async () =>
    create(RegisterResponseSchema),
  )
  const session = await ourSession(t, await serveOurs(t, handler))
  for (const count of [0, 2]) {
    const stream = session.open({ method })
    for (let i = 0; i < count; i++) await stream.send(new Uint8Array(0))
    stream.end()
    t.equal((await stream.done).error?.grpcCode, Code.INVALID_ARGUMENT, `${count} messages`)
  }
})

t.test('our typed call of a grpc-js server', async (t) => {
  const port = await serveGrpcJs(t, ({ request: bytes }, callback) => {
    const { podId } = fromBinary(RegisterRequestSchema, bytes)
    if (podId === 0n) return callback({ code: grpc.status.ALREADY_EXISTS, details: 'twice' })
    callback(null, asBuffer(toBinary(RegisterResponseSchema, create(RegisterResponseSchema))))
  })
  const session = await ourSession(t, port)
  const answer = await callUnary(session, RegisterRequestSchema, RegisterResponseSchema, request, { method })
  t.equal(answer.$typeName, 'gitlab.agent.agent_registrar.rpc.RegisterResponse')
  const empty = create(RegisterRequestSchema)
  const refused = await callUnary(session, RegisterRequestSchema, RegisterResponseSchema, empty, { method }).catch(
    KasError.from,
  )
  t.match(refused, { grpcCode: Code.ALREADY_EXISTS, message: 'twice' })
})

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as grpc from '@grpc/grpc-js'
import { SignJWT } from 'jose'
import type { Test } from 'tap'
import {
  RailsServer,
  type RailsServerComponents,
  type RailsServerOptions,
} from '../../../src/kas/servers/rails/rails-server.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { noTracer } from '../../../src/lib/tracing/tracer.ts'

/** The server on a free port, with grpc-js as the client of GitLab. */

export const secret = Buffer.from('0123456789abcdef0123456789abcdef')
const raw = (message: Buffer) => message

interface Overrides {
  readonly components?: Partial<RailsServerComponents>
  readonly options?: Partial<RailsServerOptions>
}

/** Creates the server without starting it. */
export function createRailsServer(secretFile: string, { components, options }: Overrides = {}) {
  const log: string[] = []
  const server = new RailsServer(
    {
      methods: new Map(),
      forward: async () => {
        throw new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 0 })
      },
      clock: systemClock,
      tracer: noTracer,
      log: createLogger({ level: 'debug', destination: { write: (line) => log.push(line) } }),
      ...components,
    },
    { listen: { port: 0, host: '127.0.0.1' }, secretFile, listenGraceMs: 0, maxAgeMs: 7_200_000, ...options },
  )
  return { server, log }
}

export async function startRailsServer(t: Test, overrides: Overrides = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'rails-server-')) // not t.testdir, which belongs to the test
  t.teardown(() => rm(folder, { recursive: true }))
  const secretFile = join(folder, 'secret')
  await writeFile(secretFile, `${secret.toString('base64')}\n`)
  const { server, log } = createRailsServer(secretFile, overrides)
  await server.start()
  t.teardown(() => server.stop())
  return { server, log, port: (server.address as AddressInfo).port }
}

export interface JwtInit {
  readonly algorithm?: string
  readonly key?: Uint8Array
  readonly claims?: Readonly<Record<string, unknown>>
}

/**
 * Returns a token as GitLab makes it (doc/reference/tunnel-protocol.md 5.1). `claims` replace its own; undefined ones
 * are left out.
 */
export function jwt({ algorithm = 'HS256', key = secret, claims = {} }: JwtInit = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1000)
  const own = { iss: 'gitlab.example.com', aud: 'gitlab-kas', jti: 'x', iat: now, nbf: now - 5, exp: now + 60 }
  return new SignJWT(JSON.parse(JSON.stringify({ ...own, ...claims })))
    .setProtectedHeader({ alg: algorithm, typ: 'JWT' })
    .sign(key)
}

export function connect(
  t: Test,
  port: number,
  options: grpc.ChannelOptions = {},
  credentials?: grpc.ChannelCredentials,
) {
  const client = new grpc.Client(`127.0.0.1:${port}`, credentials ?? grpc.credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
    ...options,
  })
  t.teardown(() => client.close())
  return client
}

export function metadataOf(values: Readonly<Record<string, string | Buffer>>): grpc.Metadata {
  const metadata = new grpc.Metadata()
  for (const [key, value] of Object.entries(values)) metadata.add(key, value)
  return metadata
}

/** Returns valid metadata, for agent 42 unless `more` changes that. */
export async function goodMetadata(more: Readonly<Record<string, string | Buffer>> = {}): Promise<grpc.Metadata> {
  return metadataOf({ authorization: `bearer ${await jwt()}`, ...more })
}

export interface UnaryResult {
  readonly code: number
  readonly details: string
  readonly response: Buffer | undefined
  readonly headers: grpc.Metadata | undefined
  readonly trailers: grpc.Metadata
}

/** Makes a unary call that does not throw. */
export function callUnary(
  client: grpc.Client,
  method: string,
  request: Uint8Array,
  metadata: grpc.Metadata,
  options: grpc.CallOptions = {},
): Promise<UnaryResult> {
  return new Promise((resolve) => {
    let response: Buffer | undefined
    let headers: grpc.Metadata | undefined
    const call = client.makeUnaryRequest(method, raw, raw, Buffer.from(request), metadata, options, (_, value) => {
      response = value
    })
    call.on('metadata', (received: grpc.Metadata) => {
      headers = received
    })
    call.on('status', ({ code, details, metadata: trailers }) =>
      setImmediate(() => resolve({ code, details, response, headers, trailers })),
    )
  })
}

export function openBidi(client: grpc.Client, method: string, metadata: grpc.Metadata, options: grpc.CallOptions = {}) {
  const stream = client.makeBidiStreamRequest(method, raw, raw, metadata, options)
  stream.on('error', () => undefined) // 'status' reports it
  const status = new Promise<grpc.StatusObject>((resolve) => stream.once('status', resolve))
  const headers = new Promise<grpc.Metadata>((resolve) => stream.once('metadata', resolve))
  return { stream, status, headers }
}

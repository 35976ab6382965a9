import { createServer, type IncomingMessage } from 'node:http'
import http2, { type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo, Server, Socket } from 'node:net'
import { gunzipSync, gzipSync } from 'node:zlib'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { createWebSocketStream, WebSocketServer } from 'ws'
import { ConfigurationRequestSchema, ConfigurationResponseSchema } from '../../src/proto/gen/agent_configuration_pb.ts'
import { RegisterRequestSchema } from '../../src/proto/gen/agent_registrar_pb.ts'
import { HttpRequestSchema, HttpResponseSchema } from '../../src/proto/gen/grpctool_pb.ts'
import { ConnectRequestSchema, ConnectResponseSchema } from '../../src/proto/gen/reverse_tunnel_pb.ts'
import { AgentkGo, withoutGo } from '../support/agentk-go.ts'
import type { TornDown } from '../support/processes.ts'

// The agent in Go must send what a stock agent sends (doc/reference/captured.md 1), or tests with it prove nothing. The
// server here is node:http2 and protobuf-es alone, without any part of kas.

const methods = {
  configuration: '/gitlab.agent.agent_configuration.rpc.AgentConfiguration/GetConfiguration',
  connect: '/gitlab.agent.reverse_tunnel.rpc.ReverseTunnel/Connect',
  register: '/gitlab.agent.agent_registrar.rpc.AgentRegistrar/Register',
}

/** One RPC of the agent, with its messages as they come. */
class Rpc {
  readonly headers: IncomingHttpHeaders
  readonly #stream: ServerHttp2Stream
  readonly #messages: AsyncIterator<Uint8Array>

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders) {
    this.headers = headers
    this.#stream = stream
    this.#messages = deframed(stream)
    stream.on('error', () => undefined)
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    stream.respond({ 'content-type': 'application/grpc', 'grpc-encoding': 'gzip' }, { waitForTrailers: true })
  }

  async next(): Promise<Uint8Array | undefined> {
    const result = await this.#messages.next()
    return result.done ? undefined : result.value
  }

  send(message: Uint8Array): void {
    const body = gzipSync(message)
    const head = Buffer.alloc(5)
    head[0] = 1
    head.writeUInt32BE(body.length, 1)
    this.#stream.write(Buffer.concat([head, body]))
  }

  end(): void {
    this.#stream.end()
  }
}

async function* deframed(stream: ServerHttp2Stream): AsyncGenerator<Uint8Array, void, void> {
  let bytes: Buffer = Buffer.alloc(0)
  for await (const chunk of stream) {
    bytes = Buffer.concat([bytes, chunk])
    while (bytes.length >= 5 && bytes.length >= 5 + bytes.readUInt32BE(1)) {
      const end = 5 + bytes.readUInt32BE(1)
      const body = bytes.subarray(5, end)
      yield bytes[0] === 1 ? gunzipSync(body) : body
      bytes = bytes.subarray(end)
    }
  }
}

/** RPCs in the order in which they came. */
class Recorder {
  readonly rpcs: Rpc[] = []
  readonly #watchers = new Set<() => void>()

  onStream = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    this.rpcs.push(new Rpc(stream, headers))
    for (const watch of this.#watchers) watch()
  }

  async count(count: number): Promise<void> {
    while (this.rpcs.length < count) {
      await new Promise<void>((resolve) => {
        const watch = () => {
          this.#watchers.delete(watch)
          resolve()
        }
        this.#watchers.add(watch)
      })
    }
  }
}

async function listen(t: TornDown, server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

function connect(message: Uint8Array | undefined) {
  return fromBinary(ConnectRequestSchema, message ?? new Uint8Array()).msg
}
const response = (init: Parameters<typeof create<typeof ConnectResponseSchema>>[1]) =>
  toBinary(ConnectResponseSchema, create(ConnectResponseSchema, init))
const httpMessage = (init: Parameters<typeof create<typeof HttpRequestSchema>>[1]) =>
  response({ msg: { case: 'message', value: { data: toBinary(HttpRequestSchema, create(HttpRequestSchema, init)) } } })

t.test('over WebSocket', { skip: withoutGo }, async (t) => {
  const recorder = new Recorder()
  const upgrades: IncomingMessage[] = []
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: (offered) => [...offered][0] ?? false })
  const server = createServer().on('upgrade', (request, socket, head) => {
    upgrades.push(request)
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      const session = http2.performServerHandshake(createWebSocketStream(webSocket))
      session.on('stream', recorder.onStream).on('error', () => undefined)
    })
  })
  const port = await listen(t, server)
  const kasAddress = `ws://127.0.0.1:${port}/-/kubernetes-agent/?query=dropped`
  const agent = await AgentkGo.start(t, { kasAddress, token: 'secret' })
  await recorder.count(4)

  t.equal(upgrades[0]?.method, 'GET')
  t.equal(upgrades[0]?.url, '/-/kubernetes-agent/', 'the query is dropped')
  t.match(upgrades[0]?.headers, {
    'user-agent': 'gitlab-agent/v16.5.0/8daa08cc',
    connection: 'Upgrade',
    'sec-websocket-protocol': 'ws-tunnel',
    'sec-websocket-extensions': 'permessage-deflate; client_no_context_takeover; server_no_context_takeover',
    'accept-encoding': 'gzip',
    authorization: undefined,
  })
  const paths = recorder.rpcs.map(({ headers }) => headers[':path'])
  t.same(paths, [methods.configuration, methods.connect, methods.connect, methods.register])
  for (const { headers } of recorder.rpcs) {
    t.match(headers, {
      ':authority': `ws:%2F%2F127.0.0.1:${port}%2F-%2Fkubernetes-agent%2F`,
      'content-type': /^application\/grpc$/,
      'user-agent': /^gitlab-agent\/v16\.5\.0\/8daa08cc grpc-go\/1\.58\.3$/,
      te: 'trailers',
      'grpc-encoding': 'gzip',
      'grpc-accept-encoding': 'gzip',
      authorization: 'Bearer secret',
    })
  }
  t.match(fromBinary(ConfigurationRequestSchema, (await recorder.rpcs[0]?.next()) as Uint8Array), {
    commitId: '',
    skipRegister: true,
    agentMeta: { version: 'v16.5.0', kubernetesVersion: { major: '', gitVersion: '' } },
  })
  t.match(fromBinary(RegisterRequestSchema, (await recorder.rpcs[3]?.next()) as Uint8Array), {
    agentMeta: { kubernetesVersion: { major: '1' } },
    podId: BigInt,
  })
  for (const rpc of recorder.rpcs.slice(1, 3)) {
    t.match(connect(await rpc.next()), {
      case: 'descriptor',
      value: {
        agentDescriptor: {
          services: [{ name: 'gitlab.agent.kubernetes_api.rpc.KubernetesApi', methods: [{ name: 'MakeRequest' }] }],
        },
      },
    })
  }
  t.equal((await agent.event('connected')).server, '')
  const last = recorder.rpcs[1] as Rpc
  last.end()
  await recorder.count(5)
  t.same(agent.all('backing-off'), [], 'a Connect that ended with OK is replaced at once')
})

t.test('a call, over gRPC alone', { skip: withoutGo }, async (t) => {
  const recorder = new Recorder()
  const server = http2.createServer().on('stream', recorder.onStream)
  const port = await listen(t, server)
  const api = createServer((request, answer) => {
    answer.setHeader('Content-Type', 'text/plain')
    answer.end(`${request.method} ${request.url} ${request.headers.via} ${request.headers['impersonate-user']}`)
  })
  const flags = [`--api-server=http://127.0.0.1:${await listen(t, api)}`]
  const agent = await AgentkGo.start(t, { kasAddress: `grpc://127.0.0.1:${port}`, token: 'secret', flags })
  await recorder.count(4)
  t.equal(recorder.rpcs[0]?.headers[':authority'], `127.0.0.1:${port}`)
  const tunnel = recorder.rpcs[2] as Rpc
  await tunnel.next()

  const methodName = '/gitlab.agent.kubernetes_api.rpc.KubernetesApi/MakeRequest'
  tunnel.send(response({ msg: { case: 'requestInfo', value: { methodName } } }))
  const query = { limit: { value: [Buffer.from('5')] } }
  const header = { 'Impersonate-User': { value: [Buffer.from('ada')] } }
  const request = { method: 'GET', urlPath: '/api/v1/pods', query, header }
  tunnel.send(httpMessage({ message: { case: 'header', value: { request, contentLength: 0n } } }))
  tunnel.send(httpMessage({ message: { case: 'trailer', value: {} } }))
  tunnel.send(response({ msg: { case: 'closeSend', value: {} } }))
  const seen: unknown[] = []
  for (let message = await tunnel.next(); message; message = await tunnel.next()) {
    const { case: kind, value } = connect(message) as { case: string; value: { data?: Uint8Array } }
    seen.push(value.data ? fromBinary(HttpResponseSchema, value.data).message : kind)
  }
  t.match(seen, [
    'header',
    { case: 'header', value: { response: { statusCode: 200, status: '200 OK' } } },
    {
      case: 'data',
      value: { data: Buffer.from('GET /api/v1/pods?limit=5 gRPC/1.0 gitlab-agent/v16.5.0/8daa08cc ada') },
    },
    { case: 'trailer' },
    'trailer',
  ])
  t.match(await agent.event('call'), { method: 'GET', path: '/api/v1/pods', status: 200, code: 'OK' })
  tunnel.end()
  await recorder.count(4 + 10 + 1)
  t.equal(recorder.rpcs.length, 15, 'ten tunnels more after the first call, and one in place of the used one')

  const configuration = recorder.rpcs[0] as Rpc
  const answer = (init: Parameters<typeof create<typeof ConfigurationResponseSchema>>[1]) =>
    configuration.send(toBinary(ConfigurationResponseSchema, create(ConfigurationResponseSchema, init)))
  answer({ commitId: 'abc', configuration: { agentId: 7n } })
  t.match(await agent.event('configuration'), { commit: 'abc', agentId: 7 })
  answer({ commitId: 'def', configuration: { agentId: 8n } })
  t.match(await agent.event('configuration-refused'), { commit: 'def' }, 'an agent id never changes')
  answer({ commitId: '' })
  t.match(await agent.event('invalid-response'), { where: 'AgentConfiguration.GetConfiguration' })
  const idle = recorder.rpcs.at(-1) as Rpc
  idle.send(response({ msg: { case: 'closeSend', value: {} } }))
  t.match(await agent.event('invalid-response', { where: 'ReverseTunnel.Connect' }), { message: /from 0 to 3/ })
  await agent.event('backing-off')
  t.equal(await agent.stop(), 0)
})

import { createServer, type RequestListener, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Test } from 'tap'
import type { ApiClient, ApiClientOptions } from '../../../src/agentk/cluster/api-client.ts'
import { type MayImpersonate, mayImpersonateNobody } from '../../../src/agentk/cluster/may-impersonate.ts'
import { serveKubernetesApi } from '../../../src/agentk/modules/kubernetes-api/module.ts'
import type { Serve } from '../../../src/agentk/tunnels/serve.ts'
import type { ClusterSettings } from '../../../src/lib/kubeconfig.ts'
import { noTracer } from '../../../src/lib/tracing/tracer.ts'
import { apiClient } from '../../support/api-client.ts'
import { identities } from '../../support/identities.ts'

export interface Side {
  readonly server: Server
  readonly api: { readonly forward: Serve }
  readonly client: ApiClient
  readonly port: number
}

/** Starts the module under test with a real HTTP server. */
export async function startSide(
  t: Test,
  listener: RequestListener,
  settings: Partial<ClusterSettings> = {},
  may?: MayImpersonate,
): Promise<Side> {
  const server = createServer({ maxHeaderSize: 2 * 1024 * 1024 }, listener)
  const sockets = new Set<Duplex>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  const port = await listen(server)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { server, port, ...startModule(t, port, settings, undefined, may) }
}

export function startModule(
  t: Test,
  port: number,
  settings: Partial<ClusterSettings> = {},
  options: ApiClientOptions = { dialPatienceMs: 5000 },
  may: MayImpersonate = mayImpersonateNobody,
) {
  const client = apiClient(t, { server: `http://127.0.0.1:${port}`, ...settings }, options)
  const forward = serveKubernetesApi(
    { api: client, identities: identities({ own: settings.impersonation, may }), tracer: noTracer },
    { product: 'gitlab-agent/v0.0.0/test' },
  )
  return { client, api: { forward } }
}

/** Starts a server that writes raw bytes, for answers that node:http cannot give. */
export async function startRaw(t: Test, onConnection: (socket: Socket, nth: number) => void): Promise<number> {
  let count = 0
  const sockets = new Set<Socket>()
  const server = createTcpServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    count += 1
    onConnection(socket, count)
  })
  const port = await listen(server)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return port
}

export function listen(server: { listen(port: number, host: string, done: () => void): unknown; address(): unknown }) {
  return new Promise<number>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

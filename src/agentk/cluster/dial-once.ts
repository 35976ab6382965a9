import { once } from 'node:events'
import { connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { ClusterAccess } from './cluster-access.ts'

/** One connection to the API server, TLS included, closed as soon as it is there. @throws why it is not */
export async function dialOnce(access: ClusterAccess, signal: AbortSignal): Promise<void> {
  const { server } = access
  const secured = server.protocol === 'https:'
  const host = server.hostname.replace(/^\[|\]$/g, '')
  const port = Number(server.port) || (secured ? 443 : 80)
  const socket = secured
    ? connectTls({ host, port, ...access.tls(), ALPNProtocols: ['http/1.1'] })
    : connectTcp({ host, port })
  try {
    await once(socket, secured ? 'secureConnect' : 'connect', { signal })
  } finally {
    socket.on('error', () => undefined).destroy()
  }
}

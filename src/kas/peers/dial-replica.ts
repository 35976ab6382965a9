import { once } from 'node:events'
import { connect } from 'node:tls'
import { withDeadline } from '../../lib/deadline.ts'
import { KasError } from '../../lib/errors.ts'
import { parseHostPort } from '../../lib/host-port.ts'
import { ClientSession } from '../../proto/grpc/client-session.ts'
import { replicaLimits } from '../../proto/grpc/limits.ts'
import type { WindowBudget } from '../../proto/grpc/window-budget.ts'
import { peerKeyHash, type ReplicaIdentity } from './replica-identity.ts'

/** Timeout of a dial: a replica in the same network answers in milliseconds, or not at all. ms */
const dialTimeoutMs = 2000

/**
 * Connects to a replica and verifies the public key that its row names.
 *
 * @throws KasError TUNNEL_LOST if the replica cannot be reached, or has another key
 */
export async function dialReplica(
  target: { address: string; publicKeyHash: string; identity: ReplicaIdentity; windows?: WindowBudget },
  signal: AbortSignal,
): Promise<ClientSession> {
  const { address, publicKeyHash, identity, windows } = target
  const place = parseHostPort(address)
  if (!place) throw lost(`${address} is no address`)
  const socket = connect({
    host: place.host,
    port: place.port,
    cert: identity.certificatePem,
    key: identity.keyPem,
    rejectUnauthorized: false, // the key is pinned below: these certificates have no issuer
    minVersion: 'TLSv1.3',
    ALPNProtocols: ['h2'],
  })
  socket.setNoDelay(true)
  socket.on('error', () => undefined) // errors are thrown here, or reported by the session
  try {
    const options = { ms: dialTimeoutMs, signals: [signal] }
    await withDeadline(options, (timely) => once(socket, 'secureConnect', { signal: timely }))
    if (peerKeyHash(socket) !== publicKeyHash) throw lost('another key than the row of the replica says')
  } catch (cause) {
    socket.destroy()
    throw cause instanceof KasError ? cause : lost('no connection', cause)
  }
  const options = { authority: address, scheme: 'https', bodyTrailers: true, limits: replicaLimits, windows } as const
  return ClientSession.over(socket, options)
}

function lost(detail: string, cause?: unknown): KasError {
  return new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }, { cause: cause ?? new Error(detail) })
}

import { Resolver } from 'node:dns'
import { once } from 'node:events'
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls, type SecureContext } from 'node:tls'
import { Deadline } from '../../../lib/deadline.ts'
import { KasError } from '../../../lib/errors.ts'
import { formatHostPort } from '../../../lib/host-port.ts'
import { ClientSession } from '../../../proto/grpc/client-session.ts'
import { type GitalyAddress, parseGitalyAddress } from './gitaly-address.ts'

export interface DialGitalyOptions {
  /** until the connection is established, TLS included, in ms */
  readonly connectTimeoutMs: number
  readonly userAgent: string
  /** the authorities that `tls://` trusts; called when they are needed */
  readonly secureContext: () => Promise<SecureContext>
}

/**
 * Connects to a Gitaly.
 *
 * @param address - as GitLab writes it
 * @throws KasError REPOSITORY_FAILED, or the signal's reason
 */
export async function dialGitaly(
  address: string,
  options: DialGitalyOptions,
  signal: AbortSignal,
): Promise<ClientSession> {
  const target = parseGitalyAddress(address)
  const socket = await openSocket(target, options)
  socket.setNoDelay(true)
  socket.on('error', () => undefined) // errors are thrown here, or reported by the session
  const deadline = new Deadline({ ms: options.connectTimeoutMs, signals: [signal] })
  try {
    const event = target.kind === 'tls' ? 'secureConnect' : 'connect'
    await once(socket, event, { signal: deadline.signal })
  } catch (cause) {
    socket.destroy()
    signal.throwIfAborted()
    const { message, code } = cause as NodeJS.ErrnoException // if several addresses fail, there is only a code
    const reason = deadline.isPast ? `no connection after ${options.connectTimeoutMs} ms` : message || code
    throw new KasError({ code: 'REPOSITORY_FAILED', detail: `Gitaly at ${address}: ${reason}` }, { cause })
  } finally {
    deadline.end()
  }
  return ClientSession.over(socket, {
    authority: target.kind === 'unix' ? 'localhost' : formatHostPort(target), // grpc-go names a Unix socket so
    scheme: target.kind === 'tls' ? 'https' : 'http',
    userAgent: options.userAgent,
  })
}

async function openSocket(target: GitalyAddress, options: DialGitalyOptions): Promise<Socket> {
  if (target.kind === 'unix') return connectTcp({ path: target.path })
  const { host, port } = target
  if (target.kind === 'tcp') return connectTcp({ host, port })
  if (target.kind === 'dns') {
    const { server } = target
    return connectTcp({ host, port, ...(server === undefined ? {} : { lookup: lookupBy(server) }) })
  }
  return connectTls({
    host,
    port,
    ...(isIP(host) ? {} : { servername: host }),
    secureContext: await options.secureContext(),
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['h2'],
  })
}

/** Resolves names at one DNS server, IPv4 and IPv6. */
function lookupBy(server: string): LookupFunction {
  return (name, options, callback) => {
    const resolver = new Resolver({ timeout: 2000, tries: 2 })
    resolver.setServers([server])
    const found: { address: string; family: number }[] = []
    let failure: Error | null = null
    let waiting = 2
    const done = (family: number) => (error: Error | null, addresses?: readonly string[]) => {
      failure ??= error
      found.push(...(addresses ?? []).map((address) => ({ address, family })))
      waiting -= 1
      if (waiting > 0) return
      const [first] = found
      if (!first) callback(failure ?? new Error(`${name} has no address`), '', 0)
      else if (options.all) callback(null, found)
      else callback(null, first.address, first.family)
    }
    resolver.resolve4(name, done(4))
    resolver.resolve6(name, done(6))
  }
}

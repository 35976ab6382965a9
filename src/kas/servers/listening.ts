import { CertificateFiles } from '../../lib/certificate-files.ts'
import type { Logger } from '../../lib/log.ts'
import type { Service } from '../../lib/service.ts'
import { claimSocket } from '../../lib/stale-socket.ts'
import { type Listen, type ListenOptions, parseListenAddress } from '../config/listen-address.ts'
import type { Readiness } from '../observability/readiness.ts'
import { type ListenPlace, listenFailure } from './listen-failure.ts'

export function listenOptions({ network, address }: Listen): ListenOptions {
  const options = parseListenAddress(network, address)
  if (!options) throw new Error(`${address} was checked when the configuration was read`)
  return options
}

/** Creates the service for the certificate that a block names; the server gets it. */
export function certificateOf(log: Logger, listen: Listen): { certificate?: CertificateFiles } {
  const { certificate_file, key_file } = listen
  if (certificate_file === undefined || key_file === undefined) return {}
  return { certificate: new CertificateFiles({ log }, { certificateFile: certificate_file, keyFile: key_file }) }
}

/**
 * Wraps a server: logs its address in the words that operators search for (doc/reference/tunnel-protocol.md 8.4).
 * Claims a Unix socket first. Errors are those of `explained`.
 */
export function announced(
  log: Logger,
  server: Service & { address: unknown },
  { name, file, key, listen, ...fields }: ListenPlace & { name: string; [field: string]: unknown },
): Service {
  const announce = () => {
    const address = { net_network: listen.network, net_address: addressText(server.address) }
    log.info({ ...address, ...fields }, `${name} endpoint is up`)
  }
  const start = listen.network === 'unix' ? () => startOnSocket(server, listen.address) : () => server.start()
  return explained(around(server, start, announce), { file, key, listen })
}

async function startOnSocket(server: Service, path: string): Promise<void> {
  const release = await claimSocket(path)
  await server.start().finally(release)
}

/** Wraps a service: an error of listening names the key and the next step. */
export function explained(service: Service, place: ListenPlace): Service {
  const start = async () => {
    try {
      await service.start()
    } catch (error) {
      throw listenFailure(error, place)
    }
  }
  return around(service, start, () => undefined)
}

/** Wraps a service: the replica is ready for calls once this service, and all others with a toggle, have started. */
export function whenReady(readiness: Readiness, name: string, service: Service): Service {
  const set = readiness.toggle(name)
  return around(
    service,
    () => service.start(),
    () => set(undefined),
  )
}

/**
 * Returns the service that starts last and leaves first: balancers see that the replica leaves before its servers do.
 */
export function leaving(readiness: Readiness): Service {
  const set = readiness.toggle('shutdown')
  return {
    start: async () => set(undefined),
    leave: async () => set('shutting down'),
    stop: async () => undefined,
  }
}

function around(service: Service, start: () => Promise<void>, started: () => void): Service {
  return {
    start: async () => {
      await start()
      started()
    },
    leave: async (patience) => service.leave?.(patience),
    stop: (patience) => service.stop(patience),
  }
}

function addressText(address: unknown): string {
  if (typeof address !== 'object' || address === null) return String(address)
  const { family, address: host, port } = address as { family: string; address: string; port: number }
  return family === 'IPv6' ? `[${host}]:${port}` : `${host}:${port}`
}

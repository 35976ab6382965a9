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

/** The certificate that a block names: a service of its own, handed to the server. */
export function certificateOf(log: Logger, listen: Listen): { certificate?: CertificateFiles } {
  const { certificate_file, key_file } = listen
  if (certificate_file === undefined || key_file === undefined) return {}
  return { certificate: new CertificateFiles({ log }, { certificateFile: certificate_file, keyFile: key_file }) }
}

/**
 * Logs where a server listens, in the words that operators search for (doc/reference/tunnel-protocol.md 8.4). A Unix
 * socket is claimed first. Its start fails as that of `explained`.
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

/** An error of listening names the key and what to do. */
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

/** The replica is ready for calls once this, and all else that counts, has started. */
export function whenReady(readiness: Readiness, name: string, service: Service): Service {
  const set = readiness.toggle(name)
  return around(
    service,
    () => service.start(),
    () => set(undefined),
  )
}

/** Last to start, first to leave: balancers see that this replica leaves before any of its servers does. */
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

import type { V1EndpointSlice, V1Endpoints } from '@kubernetes/client-node'
import { formatHostPort } from '../../../lib/host-port.ts'

/** Name of the port of a Service on which members gossip. */
export const gossipPortName = 'gossip'

interface NamedPort {
  readonly name?: string
  readonly port?: number
}

/**
 * Returns the addresses of a slice, whatever their conditions: one that is not ready may be joining, and one that is
 * terminating still has agents.
 *
 * @param otherPort - for a slice without a port `gossip`
 */
export function sliceAddresses(slice: V1EndpointSlice, otherPort: number): string[] {
  if (slice.addressType === 'FQDN') return []
  const port = gossipPort(slice.ports) ?? otherPort
  // the API server sends null for an absent list
  return (slice.endpoints ?? []).flatMap(({ addresses }) =>
    (addresses ?? []).map((host) => formatHostPort({ host, port })),
  )
}

/** As `sliceAddresses`, for Endpoints, the older kind. */
export function endpointsAddresses(endpoints: V1Endpoints, otherPort: number): string[] {
  return (endpoints.subsets ?? []).flatMap(({ addresses, notReadyAddresses, ports }) => {
    const port = gossipPort(ports) ?? otherPort
    const all = [...(addresses ?? []), ...(notReadyAddresses ?? [])]
    return all.map(({ ip }) => formatHostPort({ host: ip, port }))
  })
}

function gossipPort(ports: readonly NamedPort[] | undefined): number | undefined {
  return ports?.find(({ name }) => name === gossipPortName)?.port ?? undefined
}

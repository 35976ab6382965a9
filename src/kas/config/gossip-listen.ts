import * as z from 'zod'
import { blockSchema } from '../../lib/config.ts'
import { isLoopbackHost, parseHostPort } from '../../lib/host-port.ts'
import { addressForms, type Network, parseListenAddress } from './listen-address.ts'

const defaultPort = 8156
const forms = ['tcp', 'tcp4', 'tcp6'] as const

/** The block `cluster.listen`: absent keys follow `private_api.listen`. */
export const gossipListenSchema = blockSchema({
  network: z.enum(forms).optional(),
  address: z.string().optional(),
}).superRefine(({ network = 'tcp', address }, context) => {
  if (address === undefined || parseListenAddress(network, address)) return
  context.addIssue({ code: 'custom', path: ['address'], message: addressForms })
})

export interface GossipListen {
  readonly network: (typeof forms)[number]
  readonly address: string
}

/** Fills in absent keys with the private API's host: replicas that reach the one address have to reach the other. */
export function gossipListen(
  given: z.output<typeof gossipListenSchema>,
  privateApi: { readonly network: Network; readonly address: string },
): GossipListen {
  const { network } = privateApi
  // a replica whose private API is on a Unix socket is alone, and does not gossip
  const host = network === 'unix' ? '127.0.0.1' : privateApi.address.slice(0, privateApi.address.lastIndexOf(':'))
  return {
    network: given.network ?? (network === 'unix' ? 'tcp' : network),
    address: given.address ?? `${host}:${defaultPort}`,
  }
}

/**
 * Returns a warning for the operator if discovery lists replicas on other machines, from where they cannot reach this
 * one.
 */
export function unreachableGossip({
  listen,
  discovery,
}: {
  readonly listen: GossipListen
  readonly discovery: { readonly kubernetes?: unknown; readonly dns?: unknown; readonly static: readonly string[] }
}): string | undefined {
  const options = parseListenAddress(listen.network, listen.address)
  const host = options && 'port' in options ? options.host : undefined
  if (host === undefined || !isLoopbackHost(host)) return undefined
  const members = discovery.static.map((member) => parseHostPort(member)?.host ?? member)
  const isElsewhere = discovery.kubernetes !== undefined || discovery.dns !== undefined
  if (!isElsewhere && members.every(isLoopbackHost)) return undefined
  return `Gossip listens on loopback (${listen.address}), where other replicas cannot reach it. Set private_api.listen.address, for instance to ":8155", which cluster.listen.address follows unless it is set`
}

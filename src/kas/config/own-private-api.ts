import { BlockList, isIP, isIPv6 } from 'node:net'
import type { NetworkInterfaceInfo } from 'node:os'
import type { ConfigWarning } from '../../lib/config.ts'
import { isLoopbackHost, parseHostPort } from '../../lib/host-port.ts'

/**
 * Address of this replica's private API for other replicas, as packages set it (doc/reference/tunnel-protocol.md 4.3).
 */
export interface OwnPrivateApi {
  /** host of `OWN_PRIVATE_API_URL` */
  readonly host?: string
  /** networks such as `10.0.0.0/8`, `fd00::/8`; the own address is in the first that has one */
  readonly networks?: readonly string[]
  /** absent: the port on which it listens */
  readonly port?: number
}

/** Address of this replica for others; without a host they use the one that they see. */
export interface ReplicaPlace {
  readonly host?: string
  readonly port?: number
}

export type Interfaces = Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>

const urlForms = 'grpc://host:port or grpcs://host:port; the port may be absent'
const networkForms = 'networks such as 10.0.0.0/8 or fd00::/8, with commas between'
const noMeaning = {
  OWN_PRIVATE_API_SCHEME: 'calls of other replicas are TLS always',
  OWN_PRIVATE_API_HOST: 'replicas know one another by their keys, not by names in certificates',
}

/**
 * Reads `OWN_PRIVATE_API_*`. Upstream does not start if both URL and CIDR are set. Here the URL is used, because
 * packages leave old settings behind (doc/reference/gitlab-contract.md 9.3 no. 29).
 *
 * @param get - returns a variable of the environment; undefined: it is absent or empty
 */
export function ownPrivateApi(
  get: (name: string) => string | undefined,
  into: { problems: string[]; warnings: ConfigWarning[] },
): OwnPrivateApi {
  const wrong = (name: string, found: string, allowed: string) =>
    into.problems.push(`OWN_PRIVATE_API_${name}: found ${JSON.stringify(found)}, allowed: ${allowed}`)
  const unused = (key: string, hint: string) => into.warnings.push({ kind: 'unused', key, hint })
  for (const [name, why] of Object.entries(noMeaning)) if (get(name)) unused(name, why)
  const scheme = get('OWN_PRIVATE_API_SCHEME')
  if (scheme && scheme !== 'grpc' && scheme !== 'grpcs') wrong('SCHEME', scheme, 'one of grpc, grpcs')
  const port = get('OWN_PRIVATE_API_PORT')
  if (port && !isPort(port)) wrong('PORT', port, 'a port from 1 to 65535')
  const url = get('OWN_PRIVATE_API_URL')
  const place = url && placeOf(url)
  if (url && !place) wrong('URL', url, urlForms)
  const networks = commaSeparated(get('OWN_PRIVATE_API_CIDR'))
  const strange = networks.find((network) => !isNetwork(network))
  if (strange !== undefined) wrong('CIDR', strange, networkForms)
  if (url && networks.length > 0) unused('OWN_PRIVATE_API_CIDR', 'OWN_PRIVATE_API_URL is set too, and is used')
  return {
    ...(port ? { port: Number(port) } : {}),
    ...(place || (networks.length > 0 ? { networks } : {})),
  }
}

/**
 * Returns the address of this replica for others: that of the environment, else the one on which it listens, unless
 * that is a wildcard.
 *
 * @param warn - called with a setting that will not work, and with advice; a replica that is alone may ignore it
 */
export function replicaPlace(
  own: OwnPrivateApi,
  listen: { readonly host?: string; readonly port: number },
  { interfaces, warn }: { interfaces: () => Interfaces; warn: (text: string) => void },
): ReplicaPlace {
  const port = own.port === undefined ? {} : { port: own.port }
  const listened = isWildcard(listen.host) ? {} : { host: listen.host as string }
  const host = own.host ?? (own.networks && addressIn(own.networks, interfaces()))
  if (host === undefined) {
    if (own.networks) {
      warn(`OWN_PRIVATE_API_CIDR has no effect: no address of this machine is in ${own.networks.join(', ')}`)
    }
    return { ...listened, ...port }
  }
  if (listened.host !== undefined && isLoopbackHost(listened.host) && !isLoopbackHost(host)) {
    warn(
      `Other replicas are to call ${host}, but private_api.listen.address is on loopback. Set it, for instance to ":8155"`,
    )
  }
  return { host, ...port }
}

function isWildcard(host: string | undefined): boolean {
  return host === undefined || host === '0.0.0.0' || host === '::'
}

const isPort = (text: string): boolean => /^\d{1,5}$/.test(text) && Number(text) > 0 && Number(text) <= 65_535

const commaSeparated = (text = ''): string[] =>
  text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')

function placeOf(url: string): { host: string; port?: number } | undefined {
  const place = /^grpcs?:\/\/(?<place>[^/?#@]+)\/?$/.exec(url)?.groups?.place ?? ''
  const withPort = parseHostPort(place)
  if (withPort) return withPort
  const anyPort = parseHostPort(`${place}:1`)
  return anyPort && { host: anyPort.host }
}

function isNetwork(text: string): boolean {
  const [address = '', bits = '', ...more] = text.split('/')
  const family = isIP(address)
  return family !== 0 && more.length === 0 && /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32)
}

/** Returns the first address of an interface in the first network that has one. */
function addressIn(networks: readonly string[], interfaces: Interfaces): string | undefined {
  const addresses = Object.values(interfaces).flatMap((infos = []) => infos.map(({ address }) => address))
  for (const network of networks) {
    const [start = '', bits] = network.split('/')
    const family = isIPv6(start) ? 'ipv6' : 'ipv4'
    const list = new BlockList()
    list.addSubnet(start, Number(bits), family)
    const found = addresses.find((address) => isIPv6(address) === isIPv6(start) && list.check(address, family))
    if (found !== undefined) return found
  }
  return undefined
}

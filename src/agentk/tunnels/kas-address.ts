import { isIP } from 'node:net'

export type Scheme = 'grpc' | 'grpcs' | 'ws' | 'wss'

/** Address of kas, with its protocol (doc/reference/tunnel-protocol.md 2.1). */
export interface KasAddress {
  readonly scheme: Scheme
  readonly host: string
  readonly port: number
  /** path of the WebSocket upgrade; a query is dropped, as upstream does */
  readonly path: string
  readonly tls: boolean
  readonly webSocket: boolean
  /** `host:port` */
  readonly authority: string
}

const defaultPorts: Record<Scheme, number> = { grpc: 80, grpcs: 443, ws: 80, wss: 443 }

/** Schemes of addresses that are copied from a browser. */
const webSocketSchemes: Readonly<Record<string, string>> = { http: 'ws', https: 'wss' }

/** @throws Error that says what is allowed */
export function parseKasAddress(text: string): KasAddress {
  const allowed =
    'expected grpc://, grpcs://, ws:// or wss:// and a host, such as wss://kas.example.com/-/kubernetes-agent/'
  const url = URL.canParse(text) ? new URL(text) : undefined
  const scheme = url?.protocol.slice(0, -1) as Scheme
  const meant = webSocketSchemes[scheme]
  if (meant) throw new Error(`--kas-address "${withoutUser(url as URL)}": write ${meant}:// for ${scheme}://`)
  if (!url?.hostname || !Object.hasOwn(defaultPorts, scheme)) throw new Error(`--kas-address "${text}": ${allowed}`)
  if (url.username || url.password) throw new Error('--kas-address must not hold a user or password')
  const port = Number(url.port) || defaultPorts[scheme]
  return {
    scheme,
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port,
    path: url.pathname || '/',
    tls: scheme === 'grpcs' || scheme === 'wss',
    webSocket: scheme === 'ws' || scheme === 'wss',
    authority: `${url.hostname}:${port}`,
  }
}

function withoutUser({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`
}

/**
 * Returns the address that kas has named, if agentk may send its token there. The scheme must not be weaker. The host
 * must be that of `--kas-address`, below it, or allowed by name. Authorities and the expected name stay those of the
 * command line.
 */
export function allowedAddress(
  text: string,
  {
    own,
    alsoAllowed,
  }: {
    /** `--kas-address` */
    readonly own: KasAddress
    /** `--kas-allow-home`: host names; each includes the hosts below it */
    readonly alsoAllowed: readonly string[]
  },
): KasAddress | undefined {
  let address: KasAddress
  try {
    address = parseKasAddress(text)
  } catch {
    return undefined
  }
  if (own.tls && !address.tls) return undefined
  return [own.host, ...alsoAllowed].some((allowed) => isWithin(address.host, allowed)) ? address : undefined
}

function isWithin(host: string, allowed: string): boolean {
  const name = allowed.toLowerCase()
  return host === name || (name !== '' && !isIP(name) && host.endsWith(`.${name}`))
}

import { BlockList, isIP } from 'node:net'

/**
 * Variable that names the proxy. grpc-go reads HTTPS_PROXY for every scheme, Go's HTTP client the one of the scheme.
 */
export type ProxyKind = 'http' | 'https'

/** Advice for a proxy URL that cannot be parsed. */
export const proxyHint = '%, #, / and @ of a password are written %25, %23, %2F and %40'

/**
 * Parses the value of a proxy variable; http is the default scheme. Undefined: it is no URL, or has an `@` behind the
 * host. In that case the apparent host is the user name, or part of the password.
 */
export function proxyUrl(text: string): URL | undefined {
  const address = text.includes('://') ? text : `http://${text}`
  if (!URL.canParse(address)) return undefined
  const url = new URL(address)
  const { pathname, search, hash, username, password } = url
  if (`${pathname}${search}${hash}`.includes('@')) return undefined
  return canDecode(`${username}:${password}`) ? url : undefined
}

function canDecode(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false // a % that is no escape
  }
}

/**
 * Returns the proxy for a connection, as Go chooses it from HTTPS_PROXY, HTTP_PROXY and NO_PROXY (upper case wins), or
 * undefined. Connections to this machine never use a proxy.
 *
 * @throws Error if the value is no URL, or a proxy that is neither http nor https; the message does not show the value
 */
export function proxyFromEnvironment(
  env: NodeJS.ProcessEnv,
  kind: ProxyKind,
  target: { host: string; port: number },
): URL | undefined {
  const upper = kind === 'https' ? 'HTTPS_PROXY' : 'HTTP_PROXY'
  const text = env[upper] || env[upper.toLowerCase()]
  if (!text || isDirect(env.NO_PROXY || env.no_proxy || '', target)) return undefined
  const url = proxyUrl(text)
  if (!url) throw new Error(`${upper} is no URL of a proxy: ${proxyHint}`) // it may contain a password
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new Error(`${upper} must be an http or https proxy, found ${url.protocol}//`)
  }
  return url
}

/** True if NO_PROXY excludes the host, or if it is this machine. */
export function isDirect(noProxy: string, { host, port }: { host: string; port: number }): boolean {
  const name = host.toLowerCase()
  if (name === 'localhost' || isLoopback(name)) return true
  return noProxy.split(',').some((entry) => matches(entry.trim().toLowerCase(), name, port))
}

function isLoopback(host: string): boolean {
  return host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

/**
 * Compares one entry of NO_PROXY: `*`, an address, a range, a name with its sub-domains, `.name` for sub-domains only.
 * Each may have a port.
 */
function matches(entry: string, host: string, port: number): boolean {
  if (!entry) return false
  if (entry === '*') return true
  const [, name = entry, entryPort] = /^(\[.*\]|[^:]*):(\d+)$/.exec(entry) ?? []
  if (entryPort && Number(entryPort) !== port) return false
  const bare = name.replace(/^\[|\]$/g, '')
  if (bare.includes('/')) return inRange(bare, host)
  if (isIP(bare)) return bare === host
  if (bare.startsWith('*.')) return host.endsWith(bare.slice(1))
  return bare.startsWith('.') ? host.endsWith(bare) : host === bare || host.endsWith(`.${bare}`)
}

function inRange(range: string, host: string): boolean {
  const [address = '', bits = ''] = range.split('/')
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
  if (!isIP(address) || !isIP(host) || !/^\d{1,3}$/.test(bits) || Number(bits) > (family === 'ipv6' ? 128 : 32))
    return false
  const list = new BlockList()
  list.addSubnet(address, Number(bits), family)
  return list.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4')
}

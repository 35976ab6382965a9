import { BlockList, isIP } from 'node:net'

/** Which variable names the proxy: grpc-go asks for HTTPS_PROXY whatever its scheme, Go's HTTP client by scheme. */
export type ProxyKind = 'http' | 'https'

/** For whoever has written one that cannot be read. */
export const proxyHint = '%, #, / and @ of a password are written %25, %23, %2F and %40'

/**
 * What a variable names as a proxy; http, if it has no scheme. Undefined: it cannot be read. By an `@` behind the host,
 * what was taken for the host is the user, or part of his password.
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
 * The proxy for a connection, as Go chooses it from HTTPS_PROXY, HTTP_PROXY and NO_PROXY (upper case wins), or
 * undefined. This machine itself is always reached directly.
 *
 * @throws Error for what is no URL, or of a proxy that is neither http nor https; its value is not in it
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
  if (!url) throw new Error(`${upper} is no URL of a proxy: ${proxyHint}`) // it may hold a password: it is not shown
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new Error(`${upper} must be an http or https proxy, found ${url.protocol}//`)
  }
  return url
}

/** Whether NO_PROXY excepts it, or it is this machine. */
export function isDirect(noProxy: string, { host, port }: { host: string; port: number }): boolean {
  const name = host.toLowerCase()
  if (name === 'localhost' || isLoopback(name)) return true
  return noProxy.split(',').some((entry) => matches(entry.trim().toLowerCase(), name, port))
}

function isLoopback(host: string): boolean {
  return host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

/**
 * One entry of NO_PROXY: `*`, an address, a range, a name with its sub-domains, `.name` for these alone; with a port.
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

import type { SecureContext } from 'node:tls'
import type { buildConnector, Dispatcher, Pool } from 'undici'
import { KasError } from '../../../lib/errors.ts'
import { readOnAfterFailedWrite } from '../../../lib/failed-write.ts'
import { isDirect, proxyHint, proxyUrl } from '../../../lib/proxy.ts'
import { trustedContext } from '../../../lib/trusted-authorities.ts'

export interface GitlabDispatcherOptions {
  /** GitLab's address; its scheme decides about TLS */
  readonly address: string
  /** upstream's gitlab.ca_certificate_file: trusted beside the system's authorities */
  readonly caCertificateFile?: string | undefined
  /** environment with HTTP_PROXY, HTTPS_PROXY and NO_PROXY */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly timeouts: GitlabTimeouts
  readonly maxConnections: number
}

export interface GitlabTimeouts {
  /** until a connection is established, TLS included, in ms */
  readonly connectMs: number
  /** from a request to the head of its answer, in ms */
  readonly headMs: number
  /** the longest pause within an answer, in ms */
  readonly bodySilenceMs: number
}

/** Shorter than web servers keep idle connections, so that one is seldom closed under a request. In ms. */
const keepAliveMs = 10_000

/** Protocols of proxies that undici supports. */
const proxyProtocols: ReadonlySet<string> = new Set(['http:', 'https:', 'socks:', 'socks5:'])

/**
 * Creates connections to GitLab, by the proxy that the environment names. Their number is bounded, and idle ones are
 * kept for a while.
 *
 * @throws KasError SETTINGS_INVALID if the file of certificates, or the proxy, cannot be used
 */
export async function createGitlabDispatcher(options: GitlabDispatcherOptions): Promise<Dispatcher> {
  const { timeouts, env, maxConnections } = options
  const proxy = gitlabProxy(options.address, env)
  const secure = await secureContext([options.address, proxy?.href], options.caCertificateFile)
  const { default: undici } = await import('undici') // loaded here: a directory file needs none
  const agentOptions = {
    connections: maxConnections,
    pipelining: 1,
    allowH2: false,
    headersTimeout: timeouts.headMs,
    bodyTimeout: timeouts.bodySilenceMs,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: keepAliveMs,
    connect: { timeout: timeouts.connectMs, ...secure },
    factory: (origin: string | URL, { connect: way, ...settings }: Pool.Options) => {
      const dial = typeof way === 'function' ? way : undici.buildConnector({ allowH2: false, ...way })
      return new undici.Pool(origin, { ...settings, connect: readingOn(dial) })
    },
  }
  if (proxy === undefined) return new undici.Agent(agentOptions)
  const tls = { ...secure, timeout: timeouts.connectMs }
  return new undici.ProxyAgent({ ...agentOptions, uri: proxy.href, requestTls: tls, proxyTls: tls })
}

/** Reads an answer that comes before the body was written: a front of GitLab refuses a too long body, and closes. */
function readingOn(dial: buildConnector.connector): buildConnector.connector {
  return (target, done) =>
    dial(target, (...result) => {
      if (result[1]) readOnAfterFailedWrite(result[1])
      done(...result)
    })
}

/**
 * Returns the proxy to GitLab as Go chooses it: by the scheme of the address, and NO_PROXY with ranges and subdomains.
 *
 * @returns with user and password if it has them; undefined: no proxy
 * @throws KasError SETTINGS_INVALID if it cannot be read, without its value
 */
export function gitlabProxy(address: string, env: GitlabDispatcherOptions['env']): URL | undefined {
  const { protocol, hostname, port } = new URL(address)
  const isTls = protocol === 'https:'
  const name = isTls ? 'HTTPS_PROXY' : 'HTTP_PROXY'
  const text = env[name] || env[name.toLowerCase()]
  const target = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (isTls ? 443 : 80) }
  if (!text || isDirect(env.NO_PROXY || env.no_proxy || '', target)) return undefined
  const proxy = proxyUrl(text)
  if (proxy && proxyProtocols.has(proxy.protocol)) return proxy
  const problems = [`${name}: it is no URL of a proxy; ${proxyHint}`]
  throw new KasError({ code: 'SETTINGS_INVALID', file: 'environment', problems })
}

/** Creates the context only for TLS connections, or to check a given file. */
async function secureContext(
  urls: readonly (string | undefined)[],
  file: string | undefined,
): Promise<{ secureContext?: SecureContext }> {
  if (file === undefined && !urls.some((url) => url?.startsWith('https:'))) return {}
  return { secureContext: await trustedContext(file, 'gitlab.ca_certificate_file') }
}

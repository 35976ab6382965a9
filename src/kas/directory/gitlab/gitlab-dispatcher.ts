import type { SecureContext } from 'node:tls'
import type { Dispatcher } from 'undici'
import { trustedContext } from '../../../lib/trusted-authorities.ts'

export interface GitlabDispatcherOptions {
  /** of GitLab: whether TLS is needed */
  readonly address: string
  /** upstream's gitlab.ca_certificate_file: trusted beside what the system trusts */
  readonly caCertificateFile?: string | undefined
  /** of which HTTP_PROXY, HTTPS_PROXY and NO_PROXY count */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly timeouts: GitlabTimeouts
  readonly maxConnections: number
}

export interface GitlabTimeouts {
  /** until a connection stands, TLS included, in ms */
  readonly connectMs: number
  /** from a request to the head of its answer, in ms */
  readonly headMs: number
  /** of silence in the middle of an answer, in ms */
  readonly bodySilenceMs: number
}

/** as Go, never by a proxy */
const ownAddresses = 'localhost,127.0.0.1,::1'
/** Shorter than what web servers keep a connection for, so that it is seldom closed under a request. ms */
const keepAliveMs = 10_000

/**
 * Connections to GitLab: at most so many, kept for a while, by the proxy that the environment names.
 *
 * @throws KasError SETTINGS_INVALID if the file of certificates cannot be used
 */
export async function createGitlabDispatcher(options: GitlabDispatcherOptions): Promise<Dispatcher> {
  const { timeouts, env, maxConnections } = options
  const httpProxy = env.HTTP_PROXY || env.http_proxy
  const httpsProxy = env.HTTPS_PROXY || env.https_proxy
  const secure = await secureContext([options.address, httpProxy, httpsProxy], options.caCertificateFile)
  const agentOptions = {
    connections: maxConnections,
    pipelining: 1,
    allowH2: false,
    headersTimeout: timeouts.headMs,
    bodyTimeout: timeouts.bodySilenceMs,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: keepAliveMs,
    connect: { timeout: timeouts.connectMs, ...secure },
  }
  const { default: undici } = await import('undici') // loaded here: who has a directory file needs none
  if (!httpProxy && !httpsProxy) return new undici.Agent(agentOptions)
  const noProxy = [env.NO_PROXY || env.no_proxy, ownAddresses].filter(Boolean).join(',')
  return new undici.EnvHttpProxyAgent({
    ...agentOptions,
    requestTls: secure,
    proxyTls: secure,
    httpProxy: httpProxy ?? '',
    httpsProxy: httpsProxy ?? '',
    noProxy,
  })
}

/** Made only if something is to be reached by TLS, or a file is named that may be wrong. */
async function secureContext(
  urls: readonly (string | undefined)[],
  file: string | undefined,
): Promise<{ secureContext?: SecureContext }> {
  if (file === undefined && !urls.some((url) => url?.startsWith('https:'))) return {}
  return { secureContext: await trustedContext(file, 'gitlab.ca_certificate_file') }
}

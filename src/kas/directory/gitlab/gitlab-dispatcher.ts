import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import * as tls from 'node:tls'
import type { Dispatcher } from 'undici'
import { KasError } from '../../../lib/errors.ts'

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
  const { Agent, EnvHttpProxyAgent } = await import('undici') // loaded here: who has a directory file needs none
  if (!httpProxy && !httpsProxy) return new Agent(agentOptions)
  const noProxy = [env.NO_PROXY || env.no_proxy, ownAddresses].filter(Boolean).join(',')
  return new EnvHttpProxyAgent({
    ...agentOptions,
    requestTls: secure,
    proxyTls: secure,
    httpProxy: httpProxy ?? '',
    httpsProxy: httpsProxy ?? '',
    noProxy,
  })
}

/**
 * Trusts what Node and the system trust (packages name theirs by SSL_CERT_DIR), and the file's. Made once, for it
 * takes a while, and only if something is to be reached by TLS.
 */
async function secureContext(
  urls: readonly (string | undefined)[],
  file: string | undefined,
): Promise<{ secureContext?: tls.SecureContext }> {
  const own = file === undefined ? [] : [await readAuthorities(file)]
  if (own.length === 0 && !urls.some((url) => url?.startsWith('https:'))) return {}
  const ca = [...authorities('default'), ...authorities('system'), ...own]
  return { secureContext: tls.createSecureContext({ ca }) }
}

async function readAuthorities(file: string): Promise<string> {
  const invalid = (problem: string, cause?: unknown) => {
    const problems = [`gitlab.ca_certificate_file: ${problem}`]
    return new KasError({ code: 'SETTINGS_INVALID', file, problems }, { cause })
  }
  let pem: string
  try {
    pem = await readFile(file, 'utf8')
  } catch (error) {
    throw invalid(`cannot be read: ${(error as Error).message}`, error)
  }
  const certificates = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g)
  if (!certificates) throw invalid('found no certificate, allowed: PEM')
  try {
    for (const certificate of certificates) new X509Certificate(certificate) // TLS would overlook one that is broken
    return pem
  } catch (error) {
    throw invalid(`cannot be used: ${(error as Error).message}`, error)
  }
}

function authorities(of: 'default' | 'system'): readonly string[] {
  const { getCACertificates } = tls as Partial<Pick<typeof tls, 'getCACertificates'>>
  if (getCACertificates) return getCACertificates(of)
  return of === 'default' ? tls.rootCertificates : []
}

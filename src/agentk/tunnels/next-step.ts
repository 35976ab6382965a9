import { Code, KasError } from '../../lib/errors.ts'
import { tlsFault } from '../../lib/tls-fault.ts'
import type { KasAddress, Scheme } from './kas-address.ts'

/** Schemes with TLS for those without, and the reverse. */
const counterparts: Record<Scheme, Scheme> = { grpc: 'grpcs', grpcs: 'grpc', ws: 'wss', wss: 'ws' }

/** Error text: the connection ended before kas sent anything in HTTP/2. */
export const endedBeforeKasSpoke = 'the connection ended before kas said anything'

/** Error text: kas answered by HTTP, as it does at each port except that for agents. */
export const otherPortOfKas = ' is a port of kas, but not that for agents'

/** Prefix of errors of the proxy that the environment names. */
export const proxyPrefix = 'proxy '

/** Returns the next step after a failed connection to kas; undefined: the error says all that is known. */
export function nextStepToKas(error: unknown, address: KasAddress): string | undefined {
  const { code: given, spec } = error as NodeJS.ErrnoException & Partial<KasError>
  const code = typeof given === 'string' ? given : undefined // the code of a time-out is a number
  if (spec?.code === 'UNREACHABLE') return ofAnswer(spec.httpStatus, spec.detail, address)
  return ofTls(code, address) ?? ofNetwork(code, address) ?? ofPlain(code, address)
}

function ofTls(code: string | undefined, { scheme, authority }: KasAddress): string | undefined {
  switch (tlsFault(code)) {
    case 'untrusted':
      return `Give agentk the authority that signed the certificate of ${authority}: --kas-ca-cert-file`
    case 'name':
      return `Use the name that the certificate of ${authority} is for in --kas-address, or name it by --kas-tls-server-name`
    case 'dates':
      return `Check the clock of this machine, and the dates of the certificate: openssl s_client -connect ${authority} </dev/null | openssl x509 -noout -dates`
    case 'no TLS':
      return `No TLS is spoken at ${authority}: try ${counterparts[scheme]}:// in --kas-address, or the port that has TLS`
    default:
      return code === 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL'
        ? `No HTTP/2 is spoken at ${authority}: try wss:// in --kas-address, and the port of kas for agents (8150)`
        : undefined
  }
}

function ofNetwork(code: string | undefined, { host, authority }: KasAddress): string | undefined {
  switch (code) {
    case 'ECONNREFUSED':
      return `Nothing listens at ${authority}: check host and port of --kas-address, and that kas runs`
    case 'ENOTFOUND':
      return `The name ${host} is not known here: check --kas-address, and the DNS of this machine`
    case 'EAI_AGAIN':
      return `The DNS of this machine does not answer for ${host}: check it, in a pod its dnsPolicy and NetworkPolicy`
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return `There is no way to ${authority}: check firewalls and NetworkPolicy, and whether HTTPS_PROXY is needed`
    default:
      return undefined
  }
}

/** Advice for cleartext that the other side does not understand. A kas that has just crashed gives the same error. */
function ofPlain(code: string | undefined, { scheme, authority }: KasAddress): string | undefined {
  const isOdd = code === 'ECONNRESET' || code === 'ERR_HTTP2_ERROR' || code?.startsWith('HPE_')
  if (!isOdd || scheme === 'grpcs' || scheme === 'wss') return undefined
  const others = scheme === 'ws' ? 'wss://' : 'grpcs://, wss:// or ws://'
  return `${authority} does not understand ${scheme}://: try ${others} in --kas-address, and the port of kas for agents (8150), or see whether kas runs behind it`
}

const withPassword = 'Give the proxy its user and password in HTTPS_PROXY, or name kas in NO_PROXY'

function ofProxy(status: number | undefined): string {
  switch (status) {
    case undefined:
      return 'Check the proxy that HTTPS_PROXY names (HTTP_PROXY for ws://), or name kas in NO_PROXY'
    case 407:
      return withPassword
    case 502:
    case 503:
    case 504:
      return 'The proxy that HTTPS_PROXY names does not reach kas: check --kas-address, or name kas in NO_PROXY'
    default:
      return 'The proxy that HTTPS_PROXY names does not let agentk through to kas: allow it there, or name kas in NO_PROXY'
  }
}

function ofAnswer(status: number | undefined, detail: string, address: KasAddress): string | undefined {
  const { authority, path } = address
  if (detail.startsWith(proxyPrefix)) return ofProxy(status)
  if (detail.endsWith(otherPortOfKas))
    return 'Name the port of kas for agents (8150) in --kas-address: 8154 is for kubectl, 8151 for metrics'
  if (detail === endedBeforeKasSpoke) return ofPlain('ECONNRESET', address)
  switch (status) {
    case 400:
      return `${authority} may want TLS: try wss:// in --kas-address`
    case 301:
    case 302:
    case 307:
    case 308:
      return `${authority} leads elsewhere, which agentk does not follow: give --kas-address in full, with TLS and the slash at its end`
    case 401:
    case 403:
      return `A proxy in front of kas refuses agentk: what it wants may be given by --kas-header. If --kas-address leads to the place of kas for kubectl (k8s-proxy, port 8154), name that for agents (8150)`
    case 407:
      return withPassword
    case 404:
      return `No kas is at ${path} of ${authority}: with GitLab the path is /-/kubernetes-agent/`
    case 502:
    case 503:
    case 504:
      return `The proxy at ${authority} does not reach kas: check that kas runs`
    default:
      return undefined
  }
}

/** Returns the next step for a call that kas refuses; undefined: the error says all that is known. */
export function nextStepOfRefusal(error: unknown): string | undefined {
  const { grpcCode } = KasError.from(error)
  switch (grpcCode) {
    case Code.UNAUTHENTICATED:
      return 'kas does not take this token: check that --token-file or AGENTK_TOKEN is the whole token of this agent, that it was not revoked, and that --kas-address is the kas of the GitLab which gave it'
    case Code.PERMISSION_DENIED:
      return 'The token is known and may not be used: ask whoever runs GitLab, or the directory of kas'
    case Code.NOT_FOUND:
      return 'The agent of this token does not exist any more: register it again, and give agentk its new token'
    case Code.UNIMPLEMENTED:
      return 'What answers does not serve agents: --kas-address must lead to the port of kas for agents (8150), and kas must not be older than 16.5'
    default:
      return undefined
  }
}

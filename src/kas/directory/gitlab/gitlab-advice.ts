import type { KasError } from '../../../lib/errors.ts'
import { type TlsFault, tlsFault } from '../../../lib/tls-fault.ts'

const secure = 'does GitLab speak https where gitlab.address says http?'
const name = 'no address is known for the host of gitlab.address: is it written right, and does DNS know it from here?'
const route = 'no way to the host of gitlab.address: check firewalls, network policies, and HTTPS_PROXY and NO_PROXY'

const byFault: Readonly<Record<TlsFault, string>> = {
  untrusted:
    "GitLab's certificate is not trusted: set gitlab.ca_certificate_file to the certificate of the authority that signed it",
  name: "gitlab.address has a name that GitLab's certificate has not: write one of its names",
  dates: "GitLab's certificate is not valid at this time: compare the clock of this machine with its dates",
  'no TLS': 'no TLS is spoken there: does GitLab speak http where gitlab.address says https?',
}

/** Advice by the error code of a failed connection. */
const byCode: Readonly<Record<string, string>> = {
  UND_ERR_SOCKET: `if GitLab never answered: ${secure}`,
  ECONNRESET: `if GitLab never answered: ${secure}`,
  ENOTFOUND: name,
  EAI_AGAIN: name,
  ECONNREFUSED: 'nothing listens at gitlab.address: are its host and port right, and does GitLab run?',
  UND_ERR_CONNECT_TIMEOUT: route,
  ETIMEDOUT: route,
  EHOSTUNREACH: route,
  ENETUNREACH: route,
}

/** undici's texts for a CONNECT, and for a plain request, that a proxy refused */
const byProxy = /Proxy response \((\d{3})\)|Proxy Authentication Required \((407)\)/

/** Answers of nginx, Apache and programs in Go to HTTP on an HTTPS port. */
const wantsTls = /HTTPS port|SSL-enabled server|HTTPS server/

/** Returns what an operator checks first when GitLab cannot be asked; undefined: GitLab itself. */
export function gitlabAdvice(error: KasError): string | undefined {
  const { spec, cause } = error
  if (spec.code === 'GITLAB_ANSWER_INVALID') return 'is it GitLab that answers at gitlab.address?'
  if (spec.code === 'GITLAB_STATUS') return isElsewhere(error) ? byStatus(spec.status) : undefined
  const { code, message = '' } = (cause ?? {}) as { code?: unknown; message?: string }
  const [, tunnelled, plain] = byProxy.exec(message) ?? []
  const refused = tunnelled ?? plain
  if (refused !== undefined) return proxyAdvice(Number(refused))
  if (typeof code !== 'string') return undefined
  const fault = tlsFault(code)
  if (fault) return byFault[fault]
  return Object.hasOwn(byCode, code) ? byCode[code] : undefined
}

function proxyAdvice(status: number): string {
  if (status === 407)
    return 'the proxy of HTTPS_PROXY (HTTP_PROXY for http) wants a user and a password, which stand there, or name GitLab in NO_PROXY'
  if (status >= 500)
    return 'the proxy of HTTPS_PROXY (HTTP_PROXY for http) does not reach gitlab.address: is its host right, or does it belong into NO_PROXY?'
  return 'the proxy of HTTPS_PROXY (HTTP_PROXY for http) does not let kas through to gitlab.address: allow it there, or name GitLab in NO_PROXY'
}

function byStatus(status: number): string {
  if (status === 400) return secure
  return 'gitlab.address is redirected: write the address that it is redirected to, often https instead of http'
}

/** True if another server answered in front of GitLab, which means that gitlab.address is wrong. */
export function isElsewhere({ spec }: KasError): boolean {
  if (spec.code !== 'GITLAB_STATUS') return false
  return (spec.status >= 300 && spec.status < 400) || (spec.status === 400 && wantsTls.test(spec.told ?? ''))
}

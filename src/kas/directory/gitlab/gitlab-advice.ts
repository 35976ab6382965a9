import type { KasError } from '../../../lib/errors.ts'

const authority =
  "GitLab's certificate is not trusted: set gitlab.ca_certificate_file to the certificate of the authority that signed it"
const plain = 'no TLS is spoken there: does GitLab speak http where gitlab.address says https?'
const secure = 'does GitLab speak https where gitlab.address says http?'
const clock = "GitLab's certificate is not valid at this time: compare the clock of this machine with its dates"
const name = 'no address is known for the host of gitlab.address: is it written right, and does DNS know it from here?'
const route = 'no way to the host of gitlab.address: look at firewalls, network policies, and HTTPS_PROXY and NO_PROXY'

/** By the code of what a connection failed with. */
const byCode: Readonly<Record<string, string>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: authority,
  UNABLE_TO_GET_ISSUER_CERT: authority,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: authority,
  SELF_SIGNED_CERT_IN_CHAIN: authority,
  DEPTH_ZERO_SELF_SIGNED_CERT: authority,
  CERT_UNTRUSTED: authority,
  ERR_TLS_CERT_ALTNAME_INVALID: "gitlab.address has a name that GitLab's certificate has not: write one of its names",
  CERT_NOT_YET_VALID: clock,
  CERT_HAS_EXPIRED: clock,
  EPROTO: plain,
  ERR_SSL_WRONG_VERSION_NUMBER: plain,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: plain,
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

/** What nginx, Apache and programs in Go say to HTTP where they speak HTTPS. */
const wantsTls = /HTTPS port|SSL-enabled server|HTTPS server/

/** What an operator looks at first when GitLab cannot be asked; undefined: at GitLab itself. */
export function gitlabAdvice(error: KasError): string | undefined {
  const { spec, cause } = error
  if (spec.code === 'GITLAB_ANSWER_INVALID') return 'is it GitLab that answers at gitlab.address?'
  if (spec.code === 'GITLAB_STATUS') return isElsewhere(error) ? byStatus(spec.status) : undefined
  const { code } = (cause ?? {}) as { code?: unknown }
  return typeof code === 'string' && Object.hasOwn(byCode, code) ? byCode[code] : undefined
}

function byStatus(status: number): string {
  if (status === 400) return secure
  return 'gitlab.address is redirected: write the address that it is redirected to, often https instead of http'
}

/** Whether something before GitLab answered, which it would not if gitlab.address were right. */
export function isElsewhere({ spec }: KasError): boolean {
  if (spec.code !== 'GITLAB_STATUS') return false
  return (spec.status >= 300 && spec.status < 400) || (spec.status === 400 && wantsTls.test(spec.told ?? ''))
}

/** Reason why this side refused a TLS connection, for the operator to check. */
export type TlsFault = 'untrusted' | 'name' | 'dates' | 'no TLS'

const untrusted: ReadonlySet<string> = new Set([
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'INVALID_CA',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])
const dates: ReadonlySet<string> = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID'])
/** The other side speaks no TLS: OpenSSL reads HTTP as a TLS record of another version, or as a huge one. */
const noTls: ReadonlySet<string> = new Set(['EPROTO', 'ERR_SSL_PACKET_LENGTH_TOO_LONG', 'ERR_SSL_WRONG_VERSION_NUMBER'])

/** Fault by the error code of Node or OpenSSL; undefined: another fault. */
export function tlsFault(code: string | undefined): TlsFault | undefined {
  if (code === undefined) return undefined
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'name'
  if (untrusted.has(code)) return 'untrusted'
  if (dates.has(code)) return 'dates'
  return noTls.has(code) ? 'no TLS' : undefined
}

/** Node's advice to programmers, which it appends to OpenSSL's text. */
const nodeAdvice = '; if the root CA is installed locally, try running Node.js with --use-system-ca'

/** The text without Node's advice about authorities: kas and agentk name their own key or flag. */
export const withoutNodeAdvice = (text: string): string => text.replaceAll(nodeAdvice, '')

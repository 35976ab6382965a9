import { Code, KasError } from '../../lib/errors.ts'
import { isImpersonationHeader } from '../../lib/impersonated-names.ts'
import type { Headers, Impersonation } from '../../proto/http/http-message.ts'
import { canonicalHeaderName } from '../../proto/http/http-over-grpc.ts'

const nestedText =
  'gRPC -> HTTP: nested impersonation is not supported - agent is already configured to impersonate an identity'

/** Characters of a token (RFC 9110), without the percent sign, which is escaped as in client-go. */
const plainKeyByte = /[A-Za-z0-9!#$&'*+\-.^_`|~]/

/**
 * Returns the headers that name the identity a request acts as, in canonical form: name, value, name, value. They come
 * from exactly one source: agentk's own kubeconfig, the configuration that kas sent, or the request's own headers.
 *
 * Names are compared without case: a lower-case `impersonate-user` must not slip past.
 *
 * @throws KasError STATUS Unavailable if two sources name an identity (doc/reference/tunnel-protocol.md 1.4)
 */
export function impersonationHeaders(
  own: Impersonation | undefined,
  sent: Impersonation | undefined,
  request: Headers,
): string[] {
  const fromRequest: string[] = []
  for (const [name, values] of request) {
    if (!isImpersonationHeader(name)) continue
    for (const value of values) fromRequest.push(canonicalHeaderName(name), value)
  }
  const chosen = [headersOf(own), headersOf(sent), fromRequest].filter((headers) => headers.length > 0)
  if (chosen.length > 1) throw new KasError({ code: 'STATUS', grpc: Code.UNAVAILABLE, message: nestedText })
  return chosen[0] ?? []
}

export interface ServiceAccountName {
  readonly namespace: string
  readonly name: string
}

export function accountIdentity({ namespace, name }: ServiceAccountName): Impersonation {
  return { username: `system:serviceaccount:${namespace}:${name}`, groups: [], uid: '', extra: [] }
}

function headersOf(impersonation: Impersonation | undefined): string[] {
  if (!impersonation) return []
  const { username, groups, uid, extra } = impersonation
  const headers: string[] = []
  if (username) headers.push('Impersonate-User', bytes(username))
  for (const group of groups) headers.push('Impersonate-Group', bytes(group))
  if (uid) headers.push('Impersonate-Uid', bytes(uid))
  for (const { key, val } of extra) {
    const name = canonicalHeaderName(`Impersonate-Extra-${escapeKey(key)}`)
    for (const value of val) headers.push(name, bytes(value))
  }
  return headers
}

/** Encodes a header value, one byte per character. */
function bytes(text: string): string {
  return Buffer.from(text).toString('latin1')
}

function escapeKey(key: string): string {
  let out = ''
  for (const byte of Buffer.from(key)) {
    const char = String.fromCharCode(byte)
    out += plainKeyByte.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return out
}

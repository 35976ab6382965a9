import { isUtf8 } from 'node:buffer'
import { KasError } from '../../../../lib/errors.ts'
import { bearerProtocol, type RequestHead } from './request-head.ts'

const unpadded = /^[\w-]*$/
/** characters that a header may have */
const text = /^[\x20-\x7e\x80-\xff]+$/

type Source = Pick<RequestHead, 'authorization' | 'bearerProtocols' | 'offersProtocol' | 'upgrade'>

/**
 * True if a request itself names its caller, validly or not. A page of another origin cannot write such a request for
 * its user: the cookies are then ignored.
 */
export function namesCaller({ authorization, bearerProtocols }: Pick<Source, 'authorization' | 'bearerProtocols'>) {
  return authorization.length > 0 || bearerProtocols.length > 0
}

/** True if the Upgrade header asks for a WebSocket. */
export function isWebSocket({ upgrade }: Pick<Source, 'upgrade'>): boolean {
  return upgrade.some((protocol) => protocol.toLowerCase() === 'websocket')
}

/**
 * Returns the Authorization headers of a request, including the one that a bearer sub-protocol encodes. The rules are
 * those of k8s.io/apiserver `pkg/authentication/request/websocket/protocol.go`.
 *
 * @throws KasError CREDENTIALS_INVALID
 */
export function readAuthorization(head: Source): readonly string[] {
  const { authorization, bearerProtocols, offersProtocol } = head
  const [encoded, ...others] = bearerProtocols
  if (encoded === undefined) return authorization
  if (authorization.length > 0) throw invalid('there is an Authorization header, too')
  if (others.length > 0) throw invalid('multiple tokens specified')
  if (!isWebSocket(head)) throw invalid('it counts with a WebSocket alone')
  if (!offersProtocol) throw invalid('missing additional subprotocol, which the cluster answers with')
  return [`Bearer ${decode(encoded)}`]
}

function decode(encoded: string): string {
  if (!unpadded.test(encoded) || encoded.length % 4 === 1) throw invalid('invalid token encoding')
  const bytes = Buffer.from(encoded, 'base64url')
  const token = bytes.toString('latin1') // node has headers in this form
  if (!text.test(token) || !isUtf8(bytes)) throw invalid('invalid token')
  return token
}

function invalid(reason: string): KasError {
  return new KasError({ code: 'CREDENTIALS_INVALID', detail: `sub-protocol ${bearerProtocol}<token>: ${reason}` })
}

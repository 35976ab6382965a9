import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { TLSSocket } from 'node:tls'
import { StatusError } from './status-error.ts'

/** User of a request, after impersonation. */
export interface Caller {
  readonly username: string
  readonly uid: string
  readonly groups: readonly string[]
  readonly extra: Readonly<Record<string, readonly string[]>>
}

const everyone = 'system:authenticated'
const extraPrefix = 'impersonate-extra-'

/**
 * Identifies the caller by a client certificate of the double's authority, or by the bearer token; then by
 * `Impersonate-*`, which the double lets everybody use.
 *
 * @throws StatusError 401 for neither, 400 for impersonation that names no user
 */
export function callerOf(request: IncomingMessage, token: string): Caller {
  const caller = byCertificate(request) ?? byToken(request, token)
  if (!caller) throw new StatusError(401, 'Unauthorized')
  return impersonated(request) ?? caller
}

function byCertificate({ socket }: IncomingMessage): Caller | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined
  const subject = socket.getPeerCertificate().subject as { CN?: string | string[]; O?: string | string[] } | undefined
  const username = [subject?.CN ?? []].flat()[0]
  if (username === undefined) return undefined
  return { username, uid: '', groups: [...[subject?.O ?? []].flat(), everyone], extra: {} }
}

function byToken(request: IncomingMessage, token: string): Caller | undefined {
  const [header, ...more] = request.headersDistinct.authorization ?? []
  const given = /^Bearer +(\S+)$/i.exec(header ?? '')?.[1]
  if (given === undefined || more.length > 0 || !timingSafeEqual(hash(given), hash(token))) return undefined
  return { username: 'kubernetes-admin', uid: '', groups: ['system:masters', everyone], extra: {} }
}

function impersonated({ headersDistinct: headers }: IncomingMessage): Caller | undefined {
  const username = headers['impersonate-user']?.[0]
  const groups = headers['impersonate-group'] ?? []
  const uid = headers['impersonate-uid']?.[0]
  const extra = Object.fromEntries(
    Object.entries(headers)
      .filter(([name]) => name.startsWith(extraPrefix))
      .map(([name, values]) => [decodeURIComponent(name.slice(extraPrefix.length)), values ?? []]),
  )
  if (username === undefined) {
    if (groups.length === 0 && uid === undefined && Object.keys(extra).length === 0) return undefined
    throw new StatusError(400, 'requested impersonation without impersonating a user')
  }
  return { username, uid: uid ?? '', groups: [...new Set([...groups, everyone])], extra }
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

import { KasError } from '../lib/errors.ts'
import type { RoomUser } from '../lib/shared-room.ts'
import type { Caller as SentCaller } from '../proto/gen/agentk_caller_pb.ts'
import type { Impersonation } from '../proto/http/http-message.ts'

/** Identity for which kas asks something. `agent`: callers who act as agentk's own account. */
export type Caller = { readonly as: 'agent' } | { readonly as: 'user'; readonly user: Impersonation }

/** @param what - for the error: `a view`. @throws KasError INVALID_MESSAGE: no caller is named */
export function callerOf(sent: SentCaller | undefined, what: string): Caller {
  if (sent?.as.case === 'agent') return { as: 'agent' }
  if (sent?.as.case !== 'user') throw new KasError({ code: 'INVALID_MESSAGE', detail: `${what} without a caller` })
  const { username, groups, uid, extra } = sent.as.value
  return { as: 'user', user: { username, groups, uid, extra: extra.map(({ key, val }) => ({ key, val })) } }
}

/** Returns the share that a caller counts in. @param what - as of `callerOf`. @throws KasError INVALID_MESSAGE: no key is named */
export function roomUserOf(sent: SentCaller | undefined, what: string): RoomUser {
  const { key = '', userKey = '' } = sent ?? {}
  if (key === '') throw new KasError({ code: 'INVALID_MESSAGE', detail: `${what} without the key of its caller` })
  return userKey === '' ? { key } : { key, userKey }
}

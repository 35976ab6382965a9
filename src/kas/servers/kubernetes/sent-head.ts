import type { IncomingMessage } from 'node:http'
import type { Call } from '../../../call/call.ts'
import type { Target } from '../../../kubernetes/request/target.ts'
import type { Impersonation } from '../../../proto/http/http-message.ts'
import { encodeHttpRequest } from '../../../proto/http/http-over-grpc.ts'
import { encodeQuery } from '../../../proto/http/request-url.ts'
import { auditIdHeader } from '../../access-log/call-record.ts'
import type { Exchange } from './http/exchange.ts'
import { bodilessMessages, bodyMessages, upgradeMessages } from './http/request-messages.ts'
import { add, type RequestHead } from './request/request-head.ts'

export interface SentHeadOptions {
  readonly impersonation: Impersonation | undefined
  readonly auditId: string
  /** kas' own entry in the Via header */
  readonly via: string
}

/** Encodes the head for the cluster, with a query that may differ each time. */
export function headEncoder(
  { method = '' }: Pick<IncomingMessage, 'method'>,
  { header, contentLength }: RequestHead,
  { path: urlPath, query: asked, rawQuery: written }: Target,
  { impersonation, auditId, via }: SentHeadOptions,
): (query: Target['query']) => Uint8Array {
  add(header, 'Via', via)
  header.push([auditIdHeader, [auditId]]) // the caller's Audit-Id was dropped
  const rawQuery = written === encodeQuery(asked) ? {} : { rawQuery: written }
  return (query) =>
    encodeHttpRequest.header({
      ...{ method, urlPath, query, header, contentLength, impersonation },
      ...(query === asked ? rawQuery : {}), // the query of a watch may differ from the caller's
    })
}

/** Returns the messages of a request: head, and body or upgraded bytes. */
export function sentMessages(exchange: Exchange, { contentLength }: RequestHead, header: Uint8Array): Call['messages'] {
  if (exchange.upgrade) return upgradeMessages(header, exchange.upgrade.bytes)
  if (contentLength === 0) return bodilessMessages(header)
  return bodyMessages(header, () => exchange.openBody())
}

import { KasError } from '../../lib/errors.ts'
import type { OrderTable } from '../wire/message-order.ts'
import { readPayload, writeByteValue, writeEntries, writeUtf8Value } from '../wire/values.ts'
import { BackwardWriter, payloadHead, Reader } from '../wire/wire.ts'
import {
  headerExtraName,
  rawQueryField,
  readModuleRequestHeader,
  readRequestHeader,
  readResponseHeader,
} from './http-head.ts'
import type {
  HttpMessage,
  HttpRequestHeader,
  HttpRequestMessage,
  HttpResponseHeader,
  HttpResponseMessage,
  Impersonation,
  ModuleRequestHeader,
} from './http-message.ts'

/**
 * HTTP inside a gRPC stream (doc/reference/tunnel-protocol.md 1.3 and 1.4). Encoding and decoding are written by hand,
 * because each request and each chunk of a body passes here.
 */

export const kubernetesApiMethod = '/gitlab.agent.kubernetes_api.rpc.KubernetesApi/MakeRequest'

export const gitlabAccessMethod = '/gitlab.agent.gitlab_access.rpc.GitlabAccess/MakeRequest'

const kinds = ['', 'header', 'data', 'trailer', 'upgradeData'] as const
const headerExtraType = `type.googleapis.com/${headerExtraName}`
const trailer = Uint8Array.of(0x1a, 0)
const writer = new BackwardWriter()

const body = {
  data: (chunk: Uint8Array) => payload(2, chunk),
  trailer,
  upgradeData: (chunk: Uint8Array) => payload(4, chunk),
}

export const encodeHttpRequest = {
  ...body,
  header(header: HttpRequestHeader): Uint8Array {
    writer.begin()
    if (header.contentLength !== undefined) writeContentLength(header.contentLength)
    if (header.impersonation) writeImpersonation(header.impersonation)
    const request = writer.length
    writeEntries(writer, 4, header.query, writeUtf8Value)
    writeText(3, header.urlPath)
    writeEntries(writer, 2, header.header, writeByteValue)
    writeText(1, header.method)
    writer.close(1, request)
    if (header.rawQuery !== undefined) writeText(rawQueryField, header.rawQuery)
    writer.close(1, 0)
    return writer.take()
  },
}

export const encodeHttpResponse = {
  ...body,
  header(header: HttpResponseHeader): Uint8Array {
    writer.begin()
    writeEntries(writer, 3, header.header, writeByteValue)
    writeText(2, header.status)
    writer.varint(header.statusCode)
    writer.varint((1 << 3) | 0)
    writer.close(1, 0)
    writer.close(1, 0)
    return writer.take()
  },
}

/** @throws KasError INVALID_MESSAGE, HTTP_HEAD_TOO_LARGE */
export function decodeHttpRequest(bytes: Uint8Array): HttpRequestMessage {
  return decode(bytes, 'HttpRequest', readRequestHeader)
}

/** @throws KasError INVALID_MESSAGE, HTTP_HEAD_TOO_LARGE */
export function decodeModuleRequest(bytes: Uint8Array): HttpMessage<ModuleRequestHeader> {
  return decode(bytes, 'HttpRequest', readModuleRequestHeader)
}

/** @throws KasError INVALID_MESSAGE, HTTP_HEAD_TOO_LARGE */
export function decodeHttpResponse(bytes: Uint8Array): HttpResponseMessage {
  return decode(bytes, 'HttpResponse', readResponseHeader)
}

/** order of messages, the same in both directions */
export const httpMessageOrder = {
  start: ['header'],
  header: ['data', 'trailer'],
  data: ['data', 'trailer'],
  trailer: ['upgradeData', 'EOF'],
  upgradeData: ['upgradeData', 'EOF'],
} as const satisfies OrderTable

/**
 * Bound of fields of the oneof in one message, of which the last counts. Encoders write one, and two million would fit.
 */
const maxSettings = 16

const canonicalNames = new Map<string, string>()
/** Bound of cached names; all are dropped when there are more. */
const maxCanonicalNames = 1000
/** longer names are not cached: they come from callers and agents */
const maxKeptNameLength = 64

/**
 * Returns a name as Go's CanonicalMIMEHeaderKey does for valid names: each word begins with a capital, the rest is
 * lower case.
 */
export function canonicalHeaderName(name: string): string {
  const known = canonicalNames.get(name)
  if (known !== undefined) return known
  const canonical = name.toLowerCase().replace(/(^|-)[a-z]/g, (start) => start.toUpperCase())
  if (name.length <= maxKeptNameLength) {
    // invented names push out the usual ones, but not for ever
    if (canonicalNames.size >= maxCanonicalNames) canonicalNames.clear()
    canonicalNames.set(name, canonical)
  }
  return canonical
}

function payload(field: number, chunk: Uint8Array): Uint8Array {
  const head = payloadHead(field, chunk.length)
  const out = Buffer.allocUnsafe(head.length + chunk.length)
  out.set(head, 0)
  out.set(chunk, head.length)
  return out
}

function writeText(field: number, value: string): void {
  const from = writer.length
  writer.utf8(value)
  writer.close(field, from)
}

function writeContentLength(length: number): void {
  if (length < 0)
    writer.bytes(Uint8Array.of(255, 255, 255, 255, 255, 255, 255, 255, 255, 1)) // -1 as int64
  else writer.varint(length)
  writer.varint((3 << 3) | 0)
}

function writeImpersonation(impersonation: Impersonation): void {
  const any = writer.length
  for (let i = impersonation.extra.length - 1; i >= 0; i--) {
    const { key, val } = impersonation.extra[i] as Impersonation['extra'][number]
    const extra = writer.length
    for (let j = val.length - 1; j >= 0; j--) writeText(2, val[j] as string)
    writeText(1, key)
    writer.close(4, extra)
  }
  if (impersonation.uid) writeText(3, impersonation.uid)
  for (let i = impersonation.groups.length - 1; i >= 0; i--) writeText(2, impersonation.groups[i] as string)
  if (impersonation.username) writeText(1, impersonation.username)
  writer.close(1, any)
  writer.close(2, any)
  writeText(1, headerExtraType)
  writer.close(2, any)
}

function decode<Header>(bytes: Uint8Array, type: string, readHeader: (reader: Reader) => Header): HttpMessage<Header> {
  let message: HttpMessage<Header> | undefined
  let settings = 0
  const reader = new Reader(bytes)
  while (reader.next()) {
    const kind = kinds[reader.field]
    if (!kind) continue
    settings += 1
    if (settings > maxSettings) {
      throw new KasError({ code: 'INVALID_MESSAGE', detail: `${type}.message is set more than ${maxSettings} times` })
    }
    if (kind === 'data' || kind === 'upgradeData') message = { kind, data: readPayload(reader.message) }
    else if (kind === 'trailer') message = { kind }
    else message = { kind, header: readHeader(reader.message) }
  }
  if (!message) throw new KasError({ code: 'INVALID_MESSAGE', detail: `no field of ${type}.message is set` })
  return message
}

import { fromBinary, toBinary } from '@bufbuild/protobuf'
import { KasError } from '../lib/errors.ts'
import type { Metadata } from './call.ts'
import { type AgentStatus, readAgentMetadata, readAgentStatus } from './from-agent.ts'
import { type Status, StatusSchema } from './gen/google/rpc/status_pb.ts'
import { type AgentDescriptor, AgentDescriptorSchema } from './gen/info_pb.ts'
import type { OrderTable } from './message-order.ts'
import { readEntry, writeByteValue, writeEntry } from './values.ts'
import { BackwardWriter, payloadHead, Reader } from './wire.ts'

/** The messages of ReverseTunnel.Connect (wire-protocol 1.2), by hand where each call passes. */

export const connectMethod = '/gitlab.agent.reverse_tunnel.rpc.ReverseTunnel/Connect'

export type ConnectRequest =
  | { readonly kind: 'descriptor'; readonly descriptor: AgentDescriptor }
  | { readonly kind: 'header'; readonly meta: Metadata }
  | { readonly kind: 'message'; readonly data: Uint8Array }
  | { readonly kind: 'trailer'; readonly meta: Metadata }
  | { readonly kind: 'error'; readonly status: AgentStatus }

export type ConnectResponse =
  | { readonly kind: 'requestInfo'; readonly methodName: string; readonly meta: Metadata }
  | { readonly kind: 'message'; readonly data: Uint8Array }
  | { readonly kind: 'closeSend' }

const requestFields = ['', 'descriptor', 'header', 'message', 'trailer', 'error'] as const
const responseFields = ['', 'requestInfo', 'message', 'closeSend'] as const

/** For MessageOrder. */
export const connectRequestOrder = {
  start: ['descriptor'],
  descriptor: ['header', 'error'],
  // an error without a trailer is how agents before 13.10 end a call
  header: ['message', 'trailer', 'error'],
  message: ['message', 'trailer', 'error'],
  trailer: ['error', 'EOF'],
  error: ['EOF'],
} as const satisfies OrderTable

/** Of an agent that goes on with its tunnel: a second descriptor, empty, says that it waits for the next call. */
export const reusedConnectRequestOrder = {
  ...connectRequestOrder,
  trailer: ['error', 'descriptor', 'EOF'],
  error: ['descriptor', 'EOF'],
} as const satisfies OrderTable

export const connectResponseOrder = {
  start: ['requestInfo', 'EOF'],
  requestInfo: ['message', 'closeSend', 'EOF'],
  message: ['message', 'closeSend', 'EOF'],
  closeSend: ['EOF'],
} as const satisfies OrderTable

/** Of a kas that goes on with the tunnel. */
export const reusedConnectResponseOrder = {
  ...connectResponseOrder,
  closeSend: ['requestInfo', 'EOF'],
} as const satisfies OrderTable

const writer = new BackwardWriter()
const closeSend = Uint8Array.of(0x1a, 0)

export const encodeConnectRequest = {
  descriptor(descriptor: AgentDescriptor): Uint8Array {
    writer.begin().bytes(toBinary(AgentDescriptorSchema, descriptor))
    writer.close(1, 0)
    writer.close(1, 0)
    return writer.take()
  },
  header: (meta: Metadata) => encodeMeta(2, meta),
  /** the head of a message of `bytes` bytes, which follow it */
  messageHead: (bytes: number) => payloadHead(3, bytes),
  trailer: (meta: Metadata) => encodeMeta(4, meta),
  error(status: Status): Uint8Array {
    writer.begin().bytes(toBinary(StatusSchema, status))
    writer.close(1, 0)
    writer.close(5, 0)
    return writer.take()
  },
}

export const encodeConnectResponse = {
  requestInfo(methodName: string, meta: Metadata): Uint8Array {
    writer.begin()
    for (const key in meta) writeEntry(writer, 2, key, meta[key] as readonly string[], writeMetaValue(key))
    const name = writer.length
    writer.utf8(methodName)
    writer.close(1, name)
    writer.close(1, 0)
    return writer.take()
  },
  /** the head of a message of `bytes` bytes, which follow it */
  messageHead: (bytes: number) => payloadHead(2, bytes),
  closeSend: () => closeSend,
}

/** @throws KasError INVALID_MESSAGE */
export function decodeConnectRequest(bytes: Uint8Array): ConnectRequest {
  let message: ConnectRequest | undefined
  const reader = new Reader(bytes)
  while (reader.next()) {
    const kind = requestFields[reader.field]
    if (kind === 'message') message = { kind, data: readPayload(reader.message) }
    else if (kind === 'header' || kind === 'trailer') message = { kind, meta: readAgentMetadata(reader.message, 1) }
    else if (kind === 'descriptor') message = { kind, descriptor: readRequired(reader, AgentDescriptorSchema) }
    else if (kind === 'error') message = { kind, status: readStatus(reader) }
  }
  if (!message) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'no field of ConnectRequest.msg is set' })
  return message
}

/** @throws KasError INVALID_MESSAGE */
export function decodeConnectResponse(bytes: Uint8Array): ConnectResponse {
  let message: ConnectResponse | undefined
  const reader = new Reader(bytes)
  while (reader.next()) {
    const kind = responseFields[reader.field]
    if (kind === 'message') message = { kind, data: readPayload(reader.message) }
    else if (kind === 'requestInfo') message = readRequestInfo(reader.bytes)
    else if (kind === 'closeSend') message = { kind }
  }
  if (!message) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'no field of ConnectResponse.msg is set' })
  return message
}

function encodeMeta(field: number, meta: Metadata): Uint8Array {
  writer.begin()
  for (const key in meta) writeEntry(writer, 1, key, meta[key] as readonly string[], writeMetaValue(key))
  writer.close(field, 0)
  return writer.take()
}

/** Binary values (keys that end in -bin) travel as bytes in these maps, as base64 in HTTP/2. */
function writeMetaValue(key: string): (writer: BackwardWriter, value: string) => void {
  return key.endsWith('-bin') ? (to, value) => to.bytes(Buffer.from(value, 'base64')) : writeByteValue
}

function readMeta(reader: Reader, field: number): Metadata {
  const meta: Record<string, string[]> = Object.create(null) // a peer may call a key `constructor`
  while (reader.next()) {
    if (reader.field !== field) continue
    const [key, values] = readEntry(reader, 'latin1')
    const text = key.endsWith('-bin') ? values.map((v) => Buffer.from(v, 'latin1').toString('base64')) : values
    const known = meta[key]
    if (known) known.push(...text)
    else meta[key] = text
  }
  return meta
}

function readRequestInfo(bytes: Uint8Array): ConnectResponse {
  let methodName = ''
  const reader = new Reader(bytes)
  while (reader.next()) if (reader.field === 1) methodName = reader.utf8
  return { kind: 'requestInfo', methodName, meta: readMeta(new Reader(bytes), 2) }
}

const empty = new Uint8Array(0)

/** Field 1, or nothing: an empty payload is not on the wire. */
export function readPayload(reader: Reader): Uint8Array {
  let payload: Uint8Array = empty
  while (reader.next()) if (reader.field === 1) payload = reader.bytes
  return payload
}

function readRequired(reader: Reader, schema: typeof AgentDescriptorSchema): AgentDescriptor {
  const inner = reader.message
  while (inner.next()) {
    if (inner.field !== 1) continue
    try {
      return fromBinary(schema, inner.bytes)
    } catch (cause) {
      throw new KasError({ code: 'INVALID_MESSAGE', detail: `malformed ${schema.typeName}` }, { cause })
    }
  }
  throw required(schema.typeName)
}

function readStatus(reader: Reader): AgentStatus {
  const inner = reader.message
  while (inner.next()) if (inner.field === 1) return readAgentStatus(inner.bytes)
  throw required(StatusSchema.typeName)
}

function required(typeName: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: `${typeName} is required` })
}

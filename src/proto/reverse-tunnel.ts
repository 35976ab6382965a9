import { toBinary } from '@bufbuild/protobuf'
import type { Metadata } from '../call/call.ts'
import { KasError } from '../lib/errors.ts'
import { type Descriptor, decodeDescriptor } from './agent-descriptor.ts'
import { type AgentMetadata, type AgentStatus, readAgentMetadata, readAgentStatus } from './from-agent.ts'
import { type Status, StatusSchema } from './gen/google/rpc/status_pb.ts'
import { type AgentDescriptor, AgentDescriptorSchema } from './gen/info_pb.ts'
import type { OrderTable } from './wire/message-order.ts'
import { readEntry, readPayload, writeByteValue, writeEntry } from './wire/values.ts'
import { BackwardWriter, payloadHead, Reader } from './wire/wire.ts'

/**
 * Messages of ReverseTunnel.Connect (doc/reference/tunnel-protocol.md 1.2). The messages of each call are encoded and
 * decoded by hand.
 */

export const connectMethod = '/gitlab.agent.reverse_tunnel.rpc.ReverseTunnel/Connect'

export type ConnectRequest =
  | { readonly kind: 'descriptor'; readonly descriptor: Descriptor }
  | ({ readonly kind: 'header' } & AgentMetadata)
  | { readonly kind: 'message'; readonly data: Uint8Array }
  | ({ readonly kind: 'trailer' } & AgentMetadata)
  | { readonly kind: 'error'; readonly status: AgentStatus; readonly isCut: boolean }

export type ConnectResponse =
  | { readonly kind: 'requestInfo'; readonly methodName: string; readonly meta: Metadata }
  | { readonly kind: 'message'; readonly data: Uint8Array }
  | { readonly kind: 'closeSend' }

const requestFields = ['', 'descriptor', 'header', 'message', 'trailer', 'error'] as const
const responseFields = ['', 'requestInfo', 'message', 'closeSend'] as const

/** order of an agent's messages */
export const connectRequestOrder = {
  start: ['descriptor'],
  descriptor: ['header', 'error'],
  // agents before 13.10 end a call by an error without a trailer
  header: ['message', 'trailer', 'error'],
  message: ['message', 'trailer', 'error'],
  trailer: ['error', 'EOF'],
  error: ['EOF'],
} as const satisfies OrderTable

/**
 * order of an agent that reuses its tunnel: a second descriptor, empty, means that the tunnel waits for the next call
 */
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

/** order of a kas that reuses the tunnel */
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
  /** head of a message, which its `bytes` bytes follow */
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
  /** head of a message, which its `bytes` bytes follow */
  messageHead: (bytes: number) => payloadHead(2, bytes),
  closeSend: () => closeSend,
}

/** Bound of fields of the oneof in one message: a correct sender writes one. */
const maxFields = 16

/** @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE */
export function decodeConnectRequest(bytes: Uint8Array): ConnectRequest {
  // the last field of a oneof counts, so only that one is built
  let kind: Exclude<(typeof requestFields)[number], ''> | undefined
  let content: Buffer | undefined
  let fields = 0
  const reader = new Reader(bytes)
  while (reader.next()) {
    const known = requestFields[reader.field]
    if (!known) continue
    if (++fields > maxFields) {
      throw new KasError({ code: 'INVALID_MESSAGE', detail: `more than ${maxFields} fields of ConnectRequest.msg` })
    }
    kind = known
    content = reader.bytes
  }
  if (!kind || !content)
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'no field of ConnectRequest.msg is set' })
  if (kind === 'message') return { kind, data: readPayload(new Reader(content)) }
  if (kind === 'descriptor') return { kind, descriptor: decodeDescriptor(readRequired(content, 'AgentDescriptor')) }
  if (kind === 'error') return { kind, ...readAgentStatus(readRequired(content, StatusSchema.typeName)) }
  return { kind, ...readAgentMetadata(new Reader(content), 1) }
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

/** Writes a value. Binary values (keys that end in -bin) are bytes in these maps, and base64 in HTTP/2. */
function writeMetaValue(key: string): (writer: BackwardWriter, value: string) => void {
  return key.endsWith('-bin') ? (to, value) => to.bytes(Buffer.from(value, 'base64')) : writeByteValue
}

function readMeta(reader: Reader, field: number): Metadata {
  const meta: Record<string, string[]> = Object.create(null) // a peer may send a key `constructor`
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

/**
 * Returns field 1.
 *
 * @throws KasError INVALID_MESSAGE: it is absent
 */
function readRequired(content: Buffer, name: string): Buffer {
  const reader = new Reader(content)
  while (reader.next()) if (reader.field === 1) return reader.bytes
  throw new KasError({ code: 'INVALID_MESSAGE', detail: `${name} is required` })
}

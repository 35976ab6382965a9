import type { Metadata } from '../call/call.ts'
import { decodeMessage } from './decode.ts'
import { StatusSchema } from './gen/google/rpc/status_pb.ts'
import {
  boundedText,
  boundedUtf8,
  MetadataBudget,
  maxMetadataBytes,
  maxStatusDetailsBytes,
  maxStatusTextBytes,
  metadataCut,
  metadataCutKey,
} from './grpc/sendable.ts'
import { readEntry } from './wire/values.ts'
import { Reader } from './wire/wire.ts'

/** Metadata and status of a call's reply, from an agent: cut to their bounds while they are read, with a mark. */

/** google.rpc.Status */
export interface AgentStatus {
  readonly code: number
  readonly message: string
  /** the whole message if it has details; absent if they exceed `maxStatusDetailsBytes` */
  readonly details?: Uint8Array
}

export interface AgentMetadata {
  readonly meta: Metadata
  /** true: a part was cut */
  readonly isCut: boolean
}

/** Bound of encoded entries, after which nothing is read. bytes */
const maxEncodedMetadataBytes = 2 * maxMetadataBytes
/** Bound of a status that is decoded as a whole, with text and details. bytes */
const maxWholeStatusBytes = maxStatusTextBytes + maxStatusDetailsBytes
/** Bound of fields that are read of a larger status: its code and text come first. */
const maxLargeStatusFields = 16

/** @param field - number of the map's field */
export function readAgentMetadata(reader: Reader, field: number): AgentMetadata {
  const meta: Record<string, string[]> = Object.create(null) // a peer may send a key `constructor`
  const budget = new MetadataBudget()
  let left = maxEncodedMetadataBytes
  let isCut = false
  while (reader.next()) {
    if (reader.field !== field) continue
    left -= reader.bytes.length
    if (left < 0) {
      isCut = true
      break
    }
    const [key, values] = readEntry(reader, 'latin1')
    const texts = key.endsWith('-bin') ? values.map((v) => Buffer.from(v, 'latin1').toString('base64')) : values
    const fitting = texts.filter((text) => budget.take(key, text.length))
    if (fitting.length < texts.length) isCut = true
    const known = meta[key]
    if (known) known.push(...fitting)
    else if (fitting.length === texts.length || fitting.length > 0) meta[key] = fitting
  }
  if (isCut) meta[metadataCutKey] = metadataCut
  return { meta, isCut }
}

/**
 * @param bytes - a google.rpc.Status
 * @throws KasError INVALID_MESSAGE
 */
export function readAgentStatus(bytes: Buffer): { readonly status: AgentStatus; readonly isCut: boolean } {
  if (bytes.length > maxWholeStatusBytes) return { status: readLargeStatus(bytes), isCut: true }
  const status = decodeMessage(StatusSchema, bytes)
  const details = status.details.length > 0 ? Uint8Array.from(bytes) : undefined // a copy, because it is kept
  const message = boundedText(status.message)
  const isWhole = !details || details.length <= maxStatusDetailsBytes
  return {
    status: { code: status.code, message, ...(details && isWhole ? { details } : {}) },
    isCut: !isWhole || message !== status.message,
  }
}

/** Reads only the code and the beginning of the text. */
function readLargeStatus(bytes: Buffer): AgentStatus {
  const status = new Reader(bytes)
  let code = 0
  let message = ''
  for (let fields = 0; fields < maxLargeStatusFields && status.next(); fields++) {
    if (status.field === 1) code = status.int
    else if (status.field === 2) message = boundedUtf8(status.bytes)
  }
  return { code, message }
}

import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { StatusError } from './status-error.ts'

/**
 * Reads the protobuf form of the few kinds that kubectl sends in it (1.33 and later create ConfigMaps and reviews so).
 * Numbers are those of the public `generated.proto` files of k8s.io/api and k8s.io/apimachinery.
 */

export const protobufType = 'application/vnd.kubernetes.protobuf'

type Field = 'string' | 'bool' | 'stringMap' | 'bytesMap' | Schema
interface Schema {
  readonly [number: number]: readonly [name: string, field: Field]
}

const magic = Buffer.from('k8s\0')
const objectMeta: Schema = {
  1: ['name', 'string'],
  2: ['generateName', 'string'],
  3: ['namespace', 'string'],
  5: ['uid', 'string'],
  6: ['resourceVersion', 'string'],
  11: ['labels', 'stringMap'],
  12: ['annotations', 'stringMap'],
}
const resourceAttributes: Schema = {
  1: ['namespace', 'string'],
  2: ['verb', 'string'],
  3: ['group', 'string'],
  4: ['version', 'string'],
  5: ['resource', 'string'],
  6: ['subresource', 'string'],
  7: ['name', 'string'],
}
const nonResourceAttributes: Schema = { 1: ['path', 'string'], 2: ['verb', 'string'] }
const accessSpec: Schema = {
  1: ['resourceAttributes', resourceAttributes],
  2: ['nonResourceAttributes', nonResourceAttributes],
}
const kinds: Readonly<Record<string, Schema>> = {
  ConfigMap: {
    1: ['metadata', objectMeta],
    2: ['data', 'stringMap'],
    3: ['binaryData', 'bytesMap'],
    4: ['immutable', 'bool'],
  },
  SelfSubjectReview: { 1: ['metadata', objectMeta] },
  SelfSubjectAccessReview: { 1: ['metadata', objectMeta], 2: ['spec', accessSpec] },
  SelfSubjectRulesReview: { 1: ['metadata', objectMeta], 2: ['spec', { 1: ['namespace', 'string'] }] },
}
const typeMeta: Schema = { 1: ['apiVersion', 'string'], 2: ['kind', 'string'] }

/**
 * Returns the JSON form of an object in Kubernetes' envelope.
 *
 * @throws StatusError 400, 415 for an unknown kind
 */
export function decodeKubernetesProtobuf(bytes: Buffer): Record<string, unknown> {
  if (!bytes.subarray(0, magic.length).equals(magic)) throw new StatusError(400, 'the body is no Kubernetes protobuf')
  try {
    const { type, raw } = readEnvelope(bytes.subarray(magic.length))
    const schema = kinds[String(type.kind)]
    if (!schema) throw new StatusError(415, `the API double reads ${type.kind} as JSON only`)
    return { ...type, metadata: {}, ...readMessage(new BinaryReader(raw), schema) }
  } catch (error) {
    if (error instanceof StatusError) throw error
    throw new StatusError(400, 'the body is no Kubernetes protobuf')
  }
}

function readEnvelope(bytes: Uint8Array): { type: Record<string, unknown>; raw: Uint8Array } {
  const reader = new BinaryReader(bytes)
  const envelope: { type: Record<string, unknown>; raw: Uint8Array } = { type: {}, raw: new Uint8Array() }
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    if (number === 1) envelope.type = readMessage(new BinaryReader(reader.bytes()), typeMeta)
    else if (number === 2) envelope.raw = reader.bytes()
    else reader.skip(wireType)
  }
  return envelope
}

function readMessage(reader: BinaryReader, schema: Schema): Record<string, unknown> {
  const message: Record<string, unknown> = {}
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    const [name, field] = schema[number] ?? []
    if (name === undefined || field === undefined) reader.skip(wireType)
    else if (field === 'bool') message[name] = reader.bool()
    else if (wireType !== WireType.LengthDelimited) throw new StatusError(400, `${name} has an unexpected form`)
    else if (field === 'string') setText(message, name, reader.string())
    else if (typeof field === 'object') message[name] = readMessage(new BinaryReader(reader.bytes()), field)
    else {
      const [key, value] = readEntry(new BinaryReader(reader.bytes()), field)
      message[name] = { ...(message[name] as Record<string, string> | undefined), [key]: value }
    }
  }
  return message
}

/** Go writes every field, also those that are not set. */
function setText(message: Record<string, unknown>, name: string, text: string): void {
  if (text !== '') message[name] = text
}

function readEntry(reader: BinaryReader, field: 'stringMap' | 'bytesMap'): [key: string, value: string] {
  let key = ''
  let value = ''
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    if (number === 1) key = reader.string()
    else if (number === 2)
      value = field === 'stringMap' ? reader.string() : Buffer.from(reader.bytes()).toString('base64')
    else reader.skip(wireType)
  }
  return [key, value]
}

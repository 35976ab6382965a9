import type { DescField, DescMessage } from '@bufbuild/protobuf'
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import type { Seeded } from './seeded.ts'

/** One field as it is on the wire. */
interface Field {
  readonly number: number
  readonly type: WireType
  /** bytes after the tag; for a length-delimited field without its length */
  readonly content: Uint8Array
}

/** numbers that no message of this wire has, and the largest of all */
const unknownNumbers = [47, 1_000, 123_456, 2 ** 29 - 1]

/**
 * Returns another encoding of the same message. Fields come in another order (those of one number keep theirs), with
 * unknown fields of each wire type between them. Before each scalar comes an earlier value, which the later one must
 * override. Each sub-message is changed likewise.
 */
export function rewrittenMessage(schema: DescMessage, message: Uint8Array, seeded: Seeded): Uint8Array {
  const known = new Map(schema.fields.map((field) => [field.number, field]))
  const fields = fieldsOf(message).flatMap((field): Field[] => {
    const descriptor = known.get(field.number)
    if (descriptor?.fieldKind === 'scalar' && !descriptor.oneof) return [earlier(field, seeded), field]
    return [{ ...field, content: rewrittenContent(descriptor, field, seeded) }]
  })
  const unknown = seeded.list(3, () => unknownField(seeded))
  return encoded(inSomeOrder([...fields, ...unknown], seeded))
}

/** All fields of the outermost level. */
export function fieldsOf(message: Uint8Array): Field[] {
  const reader = new BinaryReader(message)
  const fields: Field[] = []
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag()
    if (type === WireType.LengthDelimited) fields.push({ number, type, content: reader.bytes() })
    else fields.push({ number, type, content: reader.skip(type, number) })
  }
  return fields
}

export function encoded(fields: readonly Field[]): Uint8Array {
  const writer = new BinaryWriter()
  for (const { number, type, content } of fields) {
    writer.tag(number, type)
    if (type === WireType.LengthDelimited) writer.bytes(content)
    else writer.raw(content)
  }
  return writer.finish()
}

function rewrittenContent(descriptor: DescField | undefined, { content }: Field, seeded: Seeded): Uint8Array {
  if (descriptor?.fieldKind === 'message') return rewrittenMessage(descriptor.message, content, seeded)
  if (descriptor?.fieldKind === 'list' && descriptor.listKind === 'message')
    return rewrittenMessage(descriptor.message, content, seeded)
  if (descriptor?.fieldKind === 'map' && descriptor.mapKind === 'message')
    return rewrittenEntry(descriptor.message, content, seeded)
  return content
}

/** Rewrites an entry of a map: `{1: key, 2: value}` */
function rewrittenEntry(value: DescMessage, entry: Uint8Array, seeded: Seeded): Uint8Array {
  const fields = fieldsOf(entry).flatMap((field) =>
    field.number === 2
      ? [{ ...field, content: rewrittenMessage(value, field.content, seeded) }]
      : [earlier(field, seeded), field],
  )
  return encoded(inSomeOrder([...fields, ...seeded.list(1, () => unknownField(seeded))], seeded))
}

/** Returns the same field with another value. */
function earlier(field: Field, seeded: Seeded): Field {
  const isBytes = field.type === WireType.LengthDelimited
  return { ...field, content: isBytes ? Buffer.from(seeded.text(5)) : Uint8Array.of(seeded.int(128)) }
}

function unknownField(seeded: Seeded): Field {
  const number = seeded.pick(unknownNumbers)
  const of = (type: WireType, content: Uint8Array): Field => ({ number, type, content })
  return seeded.pick([
    of(WireType.Varint, new BinaryWriter().int64(seeded.int(2 ** 40) - 2 ** 39).finish()),
    of(WireType.Bit64, Buffer.alloc(8, seeded.int(256))),
    of(WireType.Bit32, Buffer.alloc(4, seeded.int(256))),
    of(WireType.LengthDelimited, seeded.bytes(200)),
  ])
}

function inSomeOrder(fields: readonly Field[], seeded: Seeded): Field[] {
  const queues = Map.groupBy(fields, ({ number }) => number)
  return seeded.shuffled(fields.map(({ number }) => number)).map((number) => queues.get(number)?.shift() as Field)
}

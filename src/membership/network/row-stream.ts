import { create, toBinary } from '@bufbuild/protobuf'
import type { Stream } from '@libp2p/interface'
import { decodeMessage } from '../../proto/decode.ts'
import {
  RowEndSchema,
  RowItemsSchema,
  type RowPart,
  RowPartSchema,
  RowStartSchema,
} from '../../proto/gen/replica_pb.ts'
import { fieldCountWithin } from '../../proto/wire/field-count.ts'
import {
  bounds,
  byKind,
  type InstanceId,
  itemBytes,
  outOfBounds,
  type RowItem,
  type RowSnapshot,
} from '../table/row.ts'
import { headOf, headToMessage, itemsOf, itemsToMessages, versionOf } from '../table/row-codec.ts'

/** Transfer of a row by its owner: in parts of some 64 KiB, so that neither side is busy with one for long. */

export const rowProtocol = '/kas/row/1'

const partBytes = 64 * 1024
/** bound of a part that has the largest item in it */
const maxPartBytes = 512 * 1024
/**
 * bound of the parts of a row. An owner sends some 2,000; as many of the smallest take a member half a minute of CPU
 * time
 */
export const maxParts = 10_000
const lengthBytes = 4
/** Bound of the chunks of one part that are collected. A copy for each received byte would take seconds for a part. */
const maxChunks = 1000
/** of `RowPart` */
const itemsField = RowPartSchema.field.items.number

/** Sends the row and ends the stream; waits while the other side does not read. */
export async function sendRow(stream: Stream, row: RowSnapshot, signal: AbortSignal): Promise<void> {
  for (const part of parts(row)) {
    const bytes = toBinary(RowPartSchema, part)
    const framed = Buffer.allocUnsafe(lengthBytes + bytes.length)
    framed.writeUInt32BE(bytes.length)
    framed.set(bytes, lengthBytes)
    if (!stream.send(framed)) await stream.onDrain({ signal })
  }
  await stream.close({ signal })
}

function* parts({ instance, version, head, connections, registrations }: RowSnapshot): Generator<RowPart> {
  const start = create(RowStartSchema, { instance, version: BigInt(version), head: headToMessage(head) })
  yield create(RowPartSchema, { part: { case: 'start', value: start } })
  const items = [...connections, ...registrations]
  let batch: RowItem[] = []
  let bytes = 0
  for (const [i, item] of items.entries()) {
    batch.push(item)
    bytes += itemBytes(item)
    if (bytes < partBytes && i < items.length - 1) continue
    const value = create(RowItemsSchema, itemsToMessages(byKind(batch)))
    yield create(RowPartSchema, { part: { case: 'items', value } })
    batch = []
    bytes = 0
  }
  yield create(RowPartSchema, {
    part: { case: 'end', value: create(RowEndSchema, { items: items.length }) },
  })
}

/**
 * Reads a row to its end.
 *
 * @param owner - the sender; the row of another instance is refused
 * @throws KasError INVALID_MESSAGE if it is out of bounds, cut short, or not the owner's
 */
export async function readRow(
  stream: AsyncIterable<{ subarray(): Uint8Array }>,
  owner: InstanceId,
): Promise<RowSnapshot> {
  const reader = new RowReader(owner)
  let unread: Uint8Array[] = []
  let unreadBytes = 0
  let neededBytes = lengthBytes
  let total = 0
  let count = 0
  for await (const chunk of stream) {
    const bytes = chunk.subarray()
    total += bytes.length
    if (total > bounds.peerRowBytes) throw outOfBounds('the size of a row')
    unread.push(bytes)
    unreadBytes += bytes.length
    if (unreadBytes < neededBytes && unread.length < maxChunks) continue
    let rest = Buffer.concat(unread)
    while (rest.length >= lengthBytes) {
      const length = rest.readUInt32BE()
      if (length > maxPartBytes) throw outOfBounds('the size of a part of a row')
      if (rest.length < lengthBytes + length) break
      count += 1
      if (count > maxParts) throw outOfBounds('the number of parts of a row')
      const part = rest.subarray(lengthBytes, lengthBytes + length)
      if (fieldCountWithin(part, itemsField, bounds.itemsOfMessage) > bounds.itemsOfMessage) {
        throw outOfBounds('the number of items in a part of a row')
      }
      reader.part(decodeMessage(RowPartSchema, part))
      rest = rest.subarray(lengthBytes + length)
    }
    if (reader.row) return reader.row
    unread = [rest]
    unreadBytes = rest.length
    neededBytes = lengthBytes + (rest.length < lengthBytes ? 0 : rest.readUInt32BE())
  }
  throw outOfBounds('the end of a row')
}

class RowReader {
  row: RowSnapshot | undefined
  readonly #owner: InstanceId
  readonly #items: RowItem[] = []
  #bytes = 0
  #start: Pick<RowSnapshot, 'version' | 'head'> | undefined

  constructor(owner: InstanceId) {
    this.#owner = owner
  }

  part({ part }: RowPart): void {
    if (part.case === 'start') {
      if (this.#start || part.value.instance !== this.#owner || !part.value.head)
        throw outOfBounds('the owner of a row')
      this.#start = { version: versionOf(part.value.version), head: headOf(part.value.head) }
    } else if (part.case === 'items') {
      const { connections, registrations } = itemsOf(part.value)
      for (const item of [...connections, ...registrations]) this.#add(item)
    } else if (part.case === 'end') {
      if (!this.#start || part.value.items !== this.#items.length) throw outOfBounds('the end of a row')
      this.row = { instance: this.#owner, ...this.#start, ...byKind(this.#items) }
    } // parts of later versions are skipped
  }

  #add(item: RowItem): void {
    this.#bytes += itemBytes(item)
    if (this.#bytes > bounds.peerRowBytes) throw outOfBounds('the size of a row')
    this.#items.push(item)
  }
}

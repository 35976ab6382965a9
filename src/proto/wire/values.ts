import { isUtf8 } from 'node:buffer'
import { KasError } from '../../lib/errors.ts'
import type { BackwardWriter, Reader } from './wire.ts'

const nothing = new Uint8Array(0)

/**
 * `map<string, prototool.Values>` (doc/reference/tunnel-protocol.md 1.1), by hand: the maps of metadata, HTTP headers
 * and queries.
 */

const beyondAscii = /[^\0-\x7f]/

/**
 * Values whose characters are bytes (as node:http has them). Agents before 17.6 refuse a whole message in which one
 * value is not UTF-8, so such bytes are sent as the characters that they stand for in latin1.
 */
export function writeByteValue(writer: BackwardWriter, value: string): void {
  if (!beyondAscii.test(value) || isUtf8(Buffer.from(value, 'latin1'))) writer.latin1(value)
  else writer.utf8(value)
}

export function writeUtf8Value(writer: BackwardWriter, value: string): void {
  writer.utf8(value)
}

/** Writes one entry: key and its values. */
export function writeEntry(
  writer: BackwardWriter,
  field: number,
  key: string,
  values: readonly string[],
  write: (writer: BackwardWriter, value: string) => void,
): void {
  const entry = writer.length
  for (let i = values.length - 1; i >= 0; i--) {
    const value = writer.length
    write(writer, values[i] as string)
    writer.close(1, value)
  }
  writer.close(2, entry)
  const name = writer.length
  writer.utf8(key)
  writer.close(1, name)
  writer.close(field, entry)
}

/**
 * Reads one entry. Newer agents send repeated pairs in place of maps: keys may come twice, and lists may be empty.
 *
 * @param budget - pays for each value, and for the key of an entry without any
 * @throws KasError INVALID_MESSAGE, or what the budget throws
 */
export function readEntry(
  reader: Reader,
  encoding: 'latin1' | 'utf8',
  budget?: ValueBudget,
): [key: string, values: string[]] {
  let key = ''
  const values: string[] = []
  const entry = reader.message
  while (entry.next()) {
    if (entry.field === 1) key = entry.utf8
    else if (entry.field === 2) {
      const list = entry.message
      while (list.next()) {
        if (list.field !== 1) continue
        budget?.take()
        values.push(list[encoding])
      }
    }
  }
  if (values.length === 0) budget?.take()
  return [key, values]
}

/** Writes entries so that they stand on the wire in their order. */
export function writeEntries(
  writer: BackwardWriter,
  field: number,
  entries: readonly (readonly [key: string, values: readonly string[]])[],
  write: (writer: BackwardWriter, value: string) => void,
): void {
  for (let i = entries.length - 1; i >= 0; i--) {
    const [key, values] = entries[i] as readonly [string, readonly string[]]
    writeEntry(writer, field, key, values, write)
  }
}

/** Field 1, or nothing: an empty payload is not on the wire. */
export function readPayload(reader: Reader): Uint8Array {
  let payload: Uint8Array = nothing
  while (reader.next()) if (reader.field === 1) payload = reader.bytes
  return payload
}

/** Counts what is read of one part of an HTTP head, so that nothing is built beyond its limit. */
export class ValueBudget {
  readonly #limit: number
  readonly #unit: string
  #left: number

  /** @param options.unit - what is counted, in the plural */
  constructor({ limit, unit }: { limit: number; unit: string }) {
    this.#limit = limit
    this.#unit = unit
    this.#left = limit
  }

  /** One more is about to be built. @throws KasError HTTP_HEAD_TOO_LARGE */
  take(): void {
    if (this.#left === 0) throw new KasError({ code: 'HTTP_HEAD_TOO_LARGE', limit: this.#limit, unit: this.#unit })
    this.#left -= 1
  }
}

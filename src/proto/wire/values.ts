import { isUtf8 } from 'node:buffer'
import { KasError } from '../../lib/errors.ts'
import type { BackwardWriter, Reader } from './wire.ts'

const nothing = new Uint8Array(0)

/**
 * `map<string, prototool.Values>` (doc/reference/tunnel-protocol.md 1.1), written by hand: the maps of metadata, HTTP
 * headers and queries.
 */

const beyondAscii = /[^\0-\x7f]/

/**
 * Writes a value whose characters are bytes (as in node:http). Agents before 17.6 refuse a whole message if one value
 * is not UTF-8. So such bytes are sent as the characters that they are in latin1.
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
 * Reads one entry. Newer agents send repeated pairs in place of maps: keys may be repeated, and lists may be empty.
 *
 * @param budget - pays for each value, and for the key of an entry without values
 * @throws KasError INVALID_MESSAGE, or the error of the budget
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

/** Writes entries so that their order stays on the wire. */
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

/** Returns field 1, or nothing: an empty payload is left out on the wire. */
export function readPayload(reader: Reader): Uint8Array {
  let payload: Uint8Array = nothing
  while (reader.next()) if (reader.field === 1) payload = reader.bytes
  return payload
}

/** Counts the values of one part of an HTTP head, so that nothing above its limit is built. */
export class ValueBudget {
  readonly #limit: number
  readonly #unit: string
  #left: number

  /** @param options.unit - name of the counted values, in the plural */
  constructor({ limit, unit }: { limit: number; unit: string }) {
    this.#limit = limit
    this.#unit = unit
    this.#left = limit
  }

  /**
   * Counts one more value, before it is built.
   *
   * @throws KasError HTTP_HEAD_TOO_LARGE
   */
  take(): void {
    if (this.#left === 0) throw new KasError({ code: 'HTTP_HEAD_TOO_LARGE', limit: this.#limit, unit: this.#unit })
    this.#left -= 1
  }
}

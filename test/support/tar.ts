/** Tars of the test, entry by entry, also those that no program would write. */

export interface TarEntry {
  readonly name: string
  /** type in the header; default: a file */
  readonly type?: string
  readonly data?: string | Uint8Array
  /** size in the header; default: that of `data` */
  readonly size?: number
  readonly linkname?: string
}

const blockBytes = 512

/** End of a tar: two blocks of zeros. */
export const tarEnd = Buffer.alloc(2 * blockBytes)

/** Returns a header of the form `ustar`, with its checksum. */
export function tarHeader({
  name,
  type = '0',
  data = '',
  size = Buffer.byteLength(data),
  linkname = '',
}: TarEntry): Buffer {
  const block = Buffer.alloc(blockBytes)
  block.write(name.slice(0, 100), 0)
  block.write('0000644\0', 100)
  block.write('0000000\0', 108)
  block.write('0000000\0', 116)
  block.write(`${size.toString(8).padStart(11, '0')} `, 124)
  block.write('00000000000 ', 136)
  block.write('        ', 148)
  block.write(type, 156)
  block.write(linkname, 157)
  block.write('ustar\x0000', 257, 'latin1')
  fixChecksum(block, 0)
  return block
}

/** Writes the checksum of the header at a place. */
export function fixChecksum(tar: Buffer, at: number): void {
  tar.write('        ', at + 148)
  const sum = tar.subarray(at, at + blockBytes).reduce((all, byte) => all + byte, 0)
  tar.write(`${sum.toString(8).padStart(6, '0')}\0 `, at + 148)
}

/** Returns an entry with its content. */
export function tarEntry(entry: TarEntry): Buffer {
  const data = Buffer.from(entry.data ?? '')
  const padding = Buffer.alloc((blockBytes - (data.length % blockBytes)) % blockBytes)
  return Buffer.concat([tarHeader(entry), data, padding])
}

/** Returns a record of a header of pax. */
export function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`
  const length = (digits: number) => Buffer.byteLength(rest) + digits
  const digits = String(length(String(length(1)).length)).length
  return `${length(digits)}${rest}`
}

/** Returns a whole tar. */
export function tarOf(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.map(tarEntry), tarEnd])
}

/** Yields bytes in pieces of a size, each a part of the same buffer, as sockets give them. */
export async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array, void, void> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

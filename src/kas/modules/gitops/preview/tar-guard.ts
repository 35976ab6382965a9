import { badEntry, badTar } from './tar-errors.ts'
import { checkPax } from './tar-pax.ts'

/** Bytes of a block of a tar. */
const blockBytes = 512
/** Bytes of a header for a long name, or for attributes: names of 4 KiB, and those that other file systems have. */
const maxLongHeaderBytes = 32 * 1024
/** Limit of headers for long names before one entry. */
const maxLongHeaders = 4
/** Entries of one tar, of any type: `git ls-files` packs the whole repository. */
export const maxTarEntries = 100_000
/** Zeros at the end of a tar: programs fill a record, of 10 KiB as a rule. Bytes */
const maxEndBytes = 1024 * 1024

/** Types of headers that are no entry: of pax, and of GNU. */
const longTypes: ReadonlySet<string> = new Set(['x', 'g', 'L', 'K', 'N'])

/** Beginnings of compressed files. */
const compressions: readonly (readonly [string, readonly number[]])[] = [
  ['gzip', [0x1f, 0x8b]],
  ['zstd', [0x28, 0xb5, 0x2f, 0xfd]],
  ['xz', [0xfd, 0x37, 0x7a, 0x58, 0x5a]],
  ['bzip2', [0x42, 0x5a, 0x68]],
]

/**
 * Passes a tar through, and checks its frame before the reader of entries gets it: sizes of headers, number of entries,
 * and the end.
 *
 * @throws KasError BAD_REQUEST
 */
export async function* guardedTar(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  const guard = new TarGuard()
  for await (const piece of body) {
    guard.check(piece)
    yield piece
  }
  guard.end()
}

/** Follows the blocks of a tar. */
class TarGuard {
  readonly #block = Buffer.alloc(blockBytes)
  #filled = 0
  /** bytes of the running content, with its padding, that have not come */
  #left = 0
  /** running header of pax; undefined: other content */
  #pax: { readonly size: number; readonly pieces: Buffer[] } | undefined
  #entries = 0
  #longHeaders = 0
  #blocks = 0
  #zeroBlocks = 0

  check(piece: Uint8Array): void {
    for (let at = 0; at < piece.length; ) {
      const length = Math.min(this.#left > 0 ? this.#left : blockBytes - this.#filled, piece.length - at)
      const part = piece.subarray(at, at + length)
      at += length
      if (this.#left > 0) this.#content(part)
      else this.#head(part)
    }
  }

  end(): void {
    if (this.#blocks === 0) this.#checkCompression(this.#block.subarray(0, this.#filled))
    if (this.#blocks === 0 && this.#filled === 0) throw badTar('the body is empty')
    if (this.#zeroBlocks === 0 || this.#filled > 0) throw badTar('it ends in the middle')
  }

  #content(part: Uint8Array): void {
    this.#left -= part.length
    this.#pax?.pieces.push(Buffer.from(part))
    if (this.#left > 0 || !this.#pax) return
    const { size, pieces } = this.#pax
    this.#pax = undefined
    checkPax(Buffer.concat(pieces).subarray(0, size))
  }

  #head(part: Uint8Array): void {
    this.#block.set(part, this.#filled)
    this.#filled += part.length
    if (this.#filled < blockBytes) return
    this.#filled = 0
    if (this.#blocks === 0) this.#checkCompression(this.#block)
    this.#blocks += 1
    if (this.#block.every((byte) => byte === 0)) this.#zeros()
    else this.#header()
  }

  #zeros(): void {
    this.#zeroBlocks += 1
    if (this.#zeroBlocks * blockBytes > maxEndBytes) throw badTar(`more than ${maxEndBytes} bytes of zeros are its end`)
  }

  #header(): void {
    if (this.#zeroBlocks > 0) throw badTar('bytes follow its end: send one tar')
    const type = String.fromCharCode(this.#block[156] as number)
    const size = sizeIn(this.#block)
    if (longTypes.has(type)) {
      if (size === 0) throw badTar('a header has no content') // tar-stream takes the next content for it
      if (size > maxLongHeaderBytes) throw badTar(`a header has ${size} bytes, allowed: ${maxLongHeaderBytes}`)
      this.#longHeaders += 1
      if (this.#longHeaders > maxLongHeaders) throw badTar('too many headers come before an entry')
      if (type === 'x' || type === 'g') this.#pax = { size, pieces: [] }
    } else {
      this.#longHeaders = 0
      this.#entries += 1
      if (type === 'S') throw badEntry(nameIn(this.#block), 'it is a sparse file: pack without --sparse')
      if (this.#entries > maxTarEntries) throw badTar(`more than ${maxTarEntries} entries: pack fewer files`)
    }
    this.#left = type === '5' ? 0 : Math.ceil(size / blockBytes) * blockBytes
  }

  #checkCompression(begin: Uint8Array): void {
    const found = compressions.find(([, bytes]) => bytes.every((byte, i) => begin[i] === byte))
    if (found) throw badTar(`it is compressed by ${found[0]}: send the tar without compression`)
  }
}

/** Octal digits, with their filling. Programs read other forms in different ways. */
const octalForm = /^ *[0-7]*[\0 ]*$/

/** @throws KasError BAD_REQUEST */
function sizeIn(block: Buffer): number {
  const field = block.subarray(124, 136)
  if (field[0] === 0x80) {
    const size = field.subarray(1).reduce((sum, byte) => sum * 256 + byte, 0)
    if (Number.isSafeInteger(size)) return size
  }
  const text = field.toString('latin1')
  if (!octalForm.test(text)) throw badTar('it is no tar, or a header of it is damaged')
  return Number.parseInt(text, 8) || 0
}

function nameIn(block: Buffer): string {
  return block.toString('utf8', 0, 100).replace(/\0.*$/s, '')
}

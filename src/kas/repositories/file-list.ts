import { maxTreeLinks, type TreeFile, type TreeFiles, type TreeLink } from './tree.ts'

/** Room for the largest file entry: a path of 4,096 bytes, an object id of 64 and the lengths of both. */
const blockBytes = 64 * 1024
/** before each file: the length of its path, in two bytes, and of its object id, in one */
const headBytes = 3

interface Block {
  readonly bytes: Buffer
  used: number
}

/**
 * Files of a listing as bytes outside of the heap. As objects, 50,000 files take three times as much. The objects
 * also move to the heap's old generation and stay there until it is collected.
 */
export class FileList implements TreeFiles {
  readonly #blocks: Block[] = []
  readonly #links: TreeLink[] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  get links(): readonly TreeLink[] {
    return this.#links
  }

  addLink(path: Uint8Array, blob: string, isSubmodule: boolean): void {
    if (this.#links.length >= maxTreeLinks) return
    this.#links.push({ path: Buffer.from(path).toString(), blob, isSubmodule })
  }

  /**
   * @param path - at most 4,096 bytes
   * @param blob - object id, in hex
   */
  add(path: Uint8Array, blob: string): void {
    const size = headBytes + blob.length + path.length
    let block = this.#blocks.at(-1)
    if (!block || block.used + size > blockBytes) {
      block = { bytes: Buffer.allocUnsafeSlow(blockBytes), used: 0 }
      this.#blocks.push(block)
    }
    const { bytes, used } = block
    bytes.writeUInt16LE(path.length, used)
    bytes.writeUInt8(blob.length, used + 2)
    bytes.write(blob, used + headBytes, 'latin1')
    bytes.set(path, used + headBytes + blob.length)
    block.used += size
    this.#length += 1
  }

  *[Symbol.iterator](): Generator<TreeFile, void> {
    for (const { bytes, used } of this.#blocks) {
      let at = 0
      while (at < used) {
        const blobAt = at + headBytes
        const pathAt = blobAt + bytes.readUInt8(at + 2)
        const end = pathAt + bytes.readUInt16LE(at)
        yield { path: bytes.toString('utf8', pathAt, end), blob: bytes.toString('latin1', blobAt, pathAt) }
        at = end
      }
    }
  }
}

import { type Extract, extract, type Header } from 'tar-stream'
import type { ByteMeter } from '../../../../lib/byte-budget.ts'
import { KasError } from '../../../../lib/errors.ts'
import { badEntry, badTar, refusedFile } from './tar-errors.ts'
import { guardedTar } from './tar-guard.ts'
import { LinkTargets } from './tar-links.ts'
import { maxPathCharacters, tarPath } from './tar-path.ts'

export interface TarOptions {
  /** Decides whether the content of a file is kept. */
  chooses(path: string): Promise<boolean>
  /** counts kept bytes, names and targets of links */
  readonly memory: ByteMeter
  readonly maxFiles: number
  readonly maxFileBytes: number
  readonly maxTotalBytes: number
}

/** Files of a tar by their paths from the root of the repository, in its order. */
export interface TarFiles {
  /** undefined: the file is not chosen */
  readonly files: ReadonlyMap<string, Uint8Array | undefined>
  /** targets of symbolic links */
  readonly links: ReadonlyMap<string, string>
}

/**
 * Reads a tar piece by piece, and keeps the content of chosen files alone, and of those that chosen links before them lead
 * to.
 *
 * @throws KasError BAD_REQUEST: the tar is wrong; MANIFESTS_REFUSED: chosen files exceed a bound; errors of the body and
 *   of `chooses`
 */
export async function readTar(pieces: AsyncIterable<Uint8Array>, options: TarOptions): Promise<TarFiles> {
  const reader = extract()
  const body = { failure: undefined as KasError | undefined }
  const feeding = feed(reader, guardedTar(pieces), body)
  const reading = new TarReading(options)
  try {
    for await (const entry of reader) {
      const isKept = await reading.begin(entry.header as TarHeader)
      if (!isKept) entry.resume()
      else for await (const piece of entry as AsyncIterable<Uint8Array>) reading.add(piece)
      reading.end()
    }
  } catch (error) {
    if (error instanceof KasError) throw error
    throw body.failure ?? badTar('it is no tar, or a header of it is damaged', error)
  } finally {
    reader.destroy(null)
    await feeding
  }
  if (body.failure) throw body.failure
  return reading
}

/** tar-stream does not know all types: those are null. */
type TarHeader = Omit<Header, 'type' | 'linkname'> & {
  readonly type: Header['type'] | null
  readonly linkname: string | null
}

/** Writes the body into the reader, which gets its errors. */
async function feed(
  reader: Extract,
  pieces: AsyncIterable<Uint8Array>,
  body: { failure: KasError | undefined },
): Promise<void> {
  try {
    for await (const piece of pieces) {
      if (reader.destroying) return
      if (!reader.write(piece)) await drained(reader)
    }
    reader.end(null)
  } catch (error) {
    body.failure = KasError.from(error)
    reader.destroy(body.failure)
  }
}

function drained(reader: Extract): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  if (reader.destroyed) return Promise.resolve()
  reader.once('drain', resolve)
  reader.once('close', resolve)
  return promise.finally(() => {
    reader.off('drain', resolve)
    reader.off('close', resolve)
  })
}

/** Memory of an entry beside the characters of its path and target: its place in the maps. bytes */
const entryBytes = 200

/** Types of entries that are no files, by their names in errors. */
const refusedTypes: Readonly<Partial<Record<string, string>>> = {
  'character-device': 'a device',
  'block-device': 'a device',
  fifo: 'a FIFO',
}

/** The files that have come so far. */
class TarReading implements TarFiles {
  readonly files = new Map<string, Uint8Array | undefined>()
  readonly links = new Map<string, string>()
  readonly #options: TarOptions
  /** the file whose content is kept; undefined: none is */
  #kept: { readonly path: string; readonly data: Buffer; filled: number } | undefined
  readonly #linked: LinkTargets
  #keptFiles = 0
  #keptBytes = 0

  constructor(options: TarOptions) {
    this.#options = options
    this.#linked = new LinkTargets(this.links)
  }

  /** Begins an entry. @returns true: its content is kept. @throws KasError BAD_REQUEST, MANIFESTS_REFUSED */
  async begin({ name, type, size, linkname }: TarHeader): Promise<boolean> {
    const path = tarPath(name)
    if (type === 'directory' || path === '' || name.endsWith('/')) return false
    const refused = type === null ? 'of a type that is not known' : refusedTypes[type]
    if (refused) throw badEntry(name, `it is ${refused}: pack files alone`)
    if (this.files.has(path) || this.links.has(path)) throw badEntry(name, 'the tar has it twice')
    this.#options.memory.take(entryBytes + 2 * path.length)
    if (type === 'symlink') {
      await this.#link(path, linkname ?? '')
      return false
    }
    const isChosen = (await this.#options.chooses(path)) || this.#linked.has(path)
    if (isChosen && type === 'link') throw badEntry(name, 'it is a hard link: pack with --hard-dereference')
    this.files.set(path, undefined)
    if (!isChosen) return false
    this.#checkRoom(path, size)
    this.#options.memory.take(size)
    this.#kept = { path, data: Buffer.allocUnsafeSlow(size), filled: 0 }
    return true
  }

  /** Adds a piece of the content. It may be one byte, and costs no memory of its own. */
  add(piece: Uint8Array): void {
    if (!this.#kept) return
    this.#kept.data.set(piece, this.#kept.filled)
    this.#kept.filled += piece.length
  }

  /** Ends the entry. */
  end(): void {
    if (this.#kept) this.files.set(this.#kept.path, this.#kept.data)
    this.#kept = undefined
  }

  /** @throws KasError BAD_REQUEST, MANIFESTS_REFUSED */
  async #link(path: string, target: string): Promise<void> {
    if (target.length > maxPathCharacters) {
      throw badEntry(path, `the target of the link has more than ${maxPathCharacters} characters`)
    }
    this.#options.memory.take(2 * target.length)
    this.links.set(path, target)
    if ((await this.#options.chooses(path)) || this.#linked.has(path)) this.#linked.follow(path)
  }

  /** @throws KasError MANIFESTS_REFUSED */
  #checkRoom(path: string, size: number): void {
    const { maxFiles, maxFileBytes, maxTotalBytes } = this.#options
    this.#keptFiles += 1
    this.#keptBytes += size
    if (size > maxFileBytes) throw refusedFile(path, `it has ${size} bytes, allowed: ${maxFileBytes}`)
    if (this.#keptFiles > maxFiles) throw refusedFile(path, `the paths choose more than ${maxFiles} files`)
    if (this.#keptBytes > maxTotalBytes) {
      throw refusedFile(path, `with it the chosen files have more than ${maxTotalBytes} bytes`)
    }
  }
}

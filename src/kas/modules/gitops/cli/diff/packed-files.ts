import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { type Pack, pack } from 'tar-stream'
import type { WorkTree } from './work-tree.ts'

/** Bytes of a file that are read at once. */
const chunkBytes = 256 * 1024

/** Time of all files in the tar: the answer does not depend on it. */
const mtime = new Date(0)

/**
 * Packs the files as a tar stream, in the formats ustar and pax. Its memory does not depend on the number of files, and a
 * file is read as the reader takes it.
 *
 * @returns stream that ends with an error if a file cannot be read, or changes meanwhile
 */
export function packedFiles({ top, files, links }: Pick<WorkTree, 'top' | 'files' | 'links'>): Readable {
  const tar = pack().on('error', () => undefined) // the reader gets it
  for (const { path, target } of links) tar.entry({ name: path, type: 'symlink', linkname: target, mtime })
  fill(tar, top, files).then(
    () => tar.finalize(),
    (error: Error) => tar.destroy(error),
  )
  return Readable.from(tar, { objectMode: false })
}

async function fill(tar: Pack, top: string, files: readonly string[]): Promise<void> {
  for (const path of files) {
    const file = await open(join(top, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      await add(tar, path, file)
    } finally {
      await file.close()
    }
  }
}

/** Resolves once the reader has taken the file. */
async function add(tar: Pack, name: string, file: FileHandle): Promise<void> {
  const { size } = await file.stat()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const sink = tar.entry({ name, size, type: 'file', mtime }, (error) => (error ? reject(error) : resolve()))
  sink.on('error', () => undefined) // the callback has got it
  promise.catch(() => undefined) // it is awaited below, unless reading fails first
  for (let read = 0; read < size; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(chunkBytes, size - read)), 0)
    if (bytesRead === 0) throw new Error(`${JSON.stringify(name)} has changed while it was read: try again`)
    read += bytesRead
    if (!sink.write(buffer.subarray(0, bytesRead))) await drained(sink, promise)
  }
  sink.end(null)
  await promise
}

/** Resolves once the sink takes more. @throws the reason for which the tar has ended */
async function drained(sink: ReturnType<Pack['entry']>, ended: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  sink.once('drain', resolve)
  await Promise.race([promise, ended])
}

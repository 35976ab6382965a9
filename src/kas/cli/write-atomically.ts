import { randomBytes } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileAt } from './own-file.ts'

export interface WriteOptions {
  /** called last before the change; if it throws, the file stays as it was */
  readonly check?: () => Promise<void>
  /** true: mode and owner of the old file are not kept, because its owner may have no right to read this */
  readonly isSecret?: boolean
}

/**
 * Replaces a file through another one in the same folder, so that a reader sees either the old or the new content. Mode
 * and owner are kept, unless it is a secret. A new file is for its writer only (0600).
 *
 * @param file - without links
 * @throws Error if a pipe, a device, a socket, a folder or a link is there: it stays
 */
export async function writeAtomically(
  file: string,
  text: string,
  { check, isSecret = false }: WriteOptions = {},
): Promise<void> {
  const found = await fileAt(file)
  const kept = isSecret ? undefined : found
  const temporary = join(dirname(file), `.${basename(file)}.${randomBytes(6).toString('hex')}.tmp`)
  const handle = await open(temporary, 'wx', 0o600)
  try {
    try {
      if (kept) {
        await handle.chown(kept.uid, kept.gid).catch(() => undefined) // only root may change the owner
        await handle.chmod(kept.mode & 0o777)
      }
      await handle.writeFile(text)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await check?.()
    await rename(temporary, file)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

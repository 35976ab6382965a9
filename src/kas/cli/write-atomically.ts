import { randomBytes } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileAt } from './own-file.ts'

export interface WriteOptions {
  /** called last before the change; what it throws leaves the file as it was */
  readonly check?: () => Promise<void>
  /** mode and owner of the old file are not kept: whoever made it may not be meant to read this */
  readonly isSecret?: boolean
}

/**
 * Replaces a file by way of another in the same folder, so that a reader sees the old one or the new one whole. Mode
 * and owner are kept, unless it is a secret; a new file is the writer's alone (0600).
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
        await handle.chown(kept.uid, kept.gid).catch(() => undefined) // only root may give files away
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

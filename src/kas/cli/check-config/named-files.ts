import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import type { KasConfig } from '../../config/kas-schema.ts'
import type { DirectoryContents } from '../../directory/file/directory-contents.ts'
import { authorityChecks, certificateChecks } from '../doctor/certificates.ts'
import { directoryFileChecks } from '../doctor/directory-files.ts'
import type { FileCheck } from '../doctor/file-check.ts'
import { secretChecks } from '../doctor/secrets.ts'

/** A sentence about a key of a file, beside those about the file's form. */
export interface Remark {
  readonly key: string
  readonly text: string
}

export interface NamedFiles {
  readonly problems: readonly Remark[]
  readonly notes: readonly Remark[]
  /** files that are missing here, or that this user cannot read */
  readonly unchecked: readonly Remark[]
}

/**
 * Checks the files that kas' configuration names, except the directory file.
 *
 * @param now - ms since 1970
 */
export function namedByKas(config: KasConfig, now: number): Promise<NamedFiles> {
  return checkFiles([...certificateChecks(config, now), ...authorityChecks(config), ...secretChecks(config)])
}

/** Checks the files that a directory file names. */
export function namedByDirectory(contents: DirectoryContents): Promise<NamedFiles> {
  return checkFiles(directoryFileChecks(contents))
}

async function checkFiles(checks: readonly FileCheck[]): Promise<NamedFiles> {
  const problems: Remark[] = []
  const notes: Remark[] = []
  const unchecked: Remark[] = []
  for (const { key, files, check } of checks) {
    const missing = (await Promise.all(files.map(notChecked))).flat()
    unchecked.push(...missing)
    if (missing.length > 0) continue
    for (const { state, subject = key, text, advice } of await check()) {
      const remark = { key: subject, text: advice === undefined ? text : `${text}; ${advice}` }
      if (state === 'failed') problems.push(remark)
      if (state === 'note') notes.push(remark)
    }
  }
  return { problems, notes, unchecked }
}

async function notChecked([key, file]: readonly [string, string]): Promise<Remark[]> {
  const reason = await unreadReason(file)
  return reason === undefined ? [] : [{ key, text: `not checked: ${reason}` }]
}

/** Returns the reason why a file cannot be checked. undefined: it can be read, or a read reports its fault. */
export async function unreadReason(file: string): Promise<string | undefined> {
  try {
    await stat(file)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return `${file} is not here`
    if (code === 'EACCES') return `${file} is in a folder that this user may not search`
    return undefined
  }
  const isReadable = await access(file, constants.R_OK).then(
    () => true,
    () => false,
  )
  return isReadable ? undefined : `${file} is here, but not for this user to read`
}

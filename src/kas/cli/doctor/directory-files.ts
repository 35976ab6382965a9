import type { Found } from '../../../lib/doctor/findings.ts'
import type { DirectoryContents } from '../../directory/file/directory-contents.ts'
import { readCredentials } from '../../repositories/git-credentials.ts'
import { readHookSecret } from '../../repositories/hook-secret.ts'
import { type FileCheck, fileCheck } from './file-check.ts'

/** Least length of a hook's secret: a shorter one can be guessed from a captured hook. characters */
const minHookSecret = 16

/** Files in a directory file. */
export function directoryFileChecks({ projects }: DirectoryContents): FileCheck[] {
  return [...projects.values()].flatMap(({ git }, i) => [
    ...fileCheck(`projects[${i}].git.credentials_file`, git?.credentialsFile, (key, file) =>
      checkFile(key, file, async () => void (await readCredentials(file))),
    ),
    ...fileCheck(`projects[${i}].git.hook_secret_file`, git?.hookSecretFile, (key, file) =>
      checkFile(key, file, () => checkHookSecret(file)),
    ),
  ])
}

async function checkFile(subject: string, file: string, read: () => Promise<string | undefined>): Promise<Found[]> {
  try {
    const note = await read()
    return note === undefined ? [] : [{ state: 'note', subject, text: `${file} ${note}` }]
  } catch (error) {
    return [{ state: 'failed', subject, text: `${file}: ${(error as Error).message}` }]
  }
}

/** @returns text for a note; undefined: there is none */
async function checkHookSecret(file: string): Promise<string | undefined> {
  const { length } = await readHookSecret(file)
  return length < minHookSecret ? `has ${length} characters, which can be guessed: openssl rand -hex 32` : undefined
}

import type { Finding } from '../../../lib/findings.ts'
import type { DirectoryContents } from '../../directory/file/directory-contents.ts'
import { readCredentials } from '../../repositories/git-credentials.ts'
import { readHookSecret } from '../../repositories/hook-secret.ts'
import type { FileCheck } from './file-check.ts'

/** Least length of a hook's secret: a shorter one can be guessed from a captured hook. characters */
const minHookSecret = 16

/** Files in a directory file. */
export function directoryFileChecks({ projects }: DirectoryContents): FileCheck[] {
  return [...projects.values()].flatMap(({ git }, i): FileCheck[] => {
    const at = `projects[${i}].git`
    const { credentialsFile, hookSecretFile } = git ?? {}
    return [
      ...(credentialsFile === undefined
        ? []
        : [fileCheck(`${at}.credentials_file`, credentialsFile, async (file) => void (await readCredentials(file)))]),
      ...(hookSecretFile === undefined ? [] : [fileCheck(`${at}.hook_secret_file`, hookSecretFile, checkHookSecret)]),
    ]
  })
}

function fileCheck(key: string, file: string, read: (file: string) => Promise<string | undefined>): FileCheck {
  const check = async (): Promise<Finding[]> => {
    try {
      const note = await read(file)
      return note === undefined ? [] : [{ check: 'directory', state: 'note', subject: key, text: `${file} ${note}` }]
    } catch (error) {
      const text = `${file}: ${(error as Error).message}`
      return [{ check: 'directory', state: 'failed', subject: key, text }]
    }
  }
  return { key, files: [[key, file]], check }
}

/** @returns text for a note; undefined: there is none */
async function checkHookSecret(file: string): Promise<string | undefined> {
  const { length } = await readHookSecret(file)
  return length < minHookSecret ? `has ${length} characters, which can be guessed: openssl rand -hex 32` : undefined
}

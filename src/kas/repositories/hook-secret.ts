import { readFile } from 'node:fs/promises'

/** Larger files are refused. */
const maxSecretBytes = 8192

/** Reads a hook's secret. The file is read again for each request. @throws Error, which does not show the secret */
export async function readHookSecret(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(error.code ?? 'unreadable', { cause: error })
  })
  const line = text.replace(/\r?\n$/, '')
  if (line === '' || line.length > maxSecretBytes || /[\r\n\0]/.test(line)) throw new Error('allowed: one line')
  return line
}

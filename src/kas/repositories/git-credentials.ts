import { readFile } from 'node:fs/promises'
import { KasError } from '../../lib/errors.ts'

/** Larger files are refused. */
const maxCredentialsBytes = 8192

/**
 * Reads `user:password`, or a token alone.
 *
 * @returns the value of HTTP Basic authentication, in base64
 * @throws KasError REPOSITORY_FAILED, which does not show the file's content
 */
export async function readCredentials(file: string): Promise<string> {
  const failed = (detail: string, cause?: unknown) =>
    new KasError({ code: 'REPOSITORY_FAILED', detail: `credentials_file ${file}: ${detail}` }, { cause })
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw failed(error.code ?? 'unreadable', error)
  })
  const line = text.trim()
  if (line === '' || line.length > maxCredentialsBytes || /[\r\n\0]/.test(line)) {
    throw failed('allowed: one line, user:password or a token alone')
  }
  return Buffer.from(line.includes(':') ? line : `oauth2:${line}`, 'utf8').toString('base64')
}

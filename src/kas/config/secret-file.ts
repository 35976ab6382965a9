import { readFile } from 'node:fs/promises'
import { KasError } from '../../lib/errors.ts'
import { fileProblem } from '../../lib/file-problem.ts'

/**
 * Reads the secret that GitLab and kas share, for both directions: exactly 32 bytes (doc/reference/gitlab-contract.md 9
 * no. 27).
 */
export function readApiSecret(file: string, key: string): Promise<Uint8Array> {
  return readSecret(file, { key, minBytes: 32, maxBytes: 32 })
}

/**
 * Reads the secret of all replicas, of any length; `short`: it has fewer than 32 bytes
 * (doc/reference/gitlab-contract.md 9 no. 26).
 *
 * @param key - the configuration key that names the file, if it is not the usual one
 */
export async function readPrivateApiSecret(
  file: string,
  key = 'private_api.listen.authentication_secret_file',
): Promise<{ secret: Uint8Array; short: boolean }> {
  const secret = await readSecret(file, { key, minBytes: 1 })
  return { secret, short: secret.length < 32 }
}

/**
 * Reads the secret of browser WebSockets, 64 to 72 bytes; undefined: the file is absent
 * (doc/reference/gitlab-contract.md 9 no. 25).
 */
export async function readWebsocketTokenSecret(file: string): Promise<Uint8Array | undefined> {
  const key = 'agent.kubernetes_api.websocket_token_secret_file'
  try {
    return await readSecret(file, { key, minBytes: 64, maxBytes: 72 })
  } catch (error) {
    const cause = error instanceof KasError ? error.cause : undefined
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Reads the secret that load balancers send to learn the replica for a request. It is base64 of at least 32 bytes,
 * returned as text for a header.
 */
export async function readAccelRedirectSecret(file: string): Promise<string> {
  const secret = await readSecret(file, { key: 'agent.kubernetes_api.accel_redirect_secret_file', minBytes: 32 })
  return Buffer.from(secret).toString('base64')
}

/**
 * Reads standard base64, with white space anywhere.
 *
 * @throws KasError SETTINGS_INVALID, which never quotes the file
 */
async function readSecret(
  file: string,
  rule: {
    /** configuration key that names the file, for errors */
    readonly key: string
    readonly minBytes: number
    readonly maxBytes?: number
  },
): Promise<Uint8Array> {
  const invalid = (problem: string, cause?: unknown) =>
    new KasError({ code: 'SETTINGS_INVALID', file, problems: [`${rule.key}: ${problem}`] }, { cause })
  let text: string
  try {
    text = (await readFile(file, 'utf8')).replaceAll(/\s/g, '')
  } catch (error) {
    throw invalid(`cannot be read: ${fileProblem(error)}`, error)
  }
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0)
    throw invalid('found no base64, allowed: standard base64')
  const secret = Buffer.from(text, 'base64')
  const max = rule.maxBytes ?? Number.POSITIVE_INFINITY
  if (secret.length >= rule.minBytes && secret.length <= max) return secret
  const range = rule.minBytes === max ? `exactly ${max}` : `${rule.minBytes} to ${max}`
  const allowed = `${rule.maxBytes ? range : `at least ${rule.minBytes}`} bytes in base64`
  throw invalid(`found ${secret.length} bytes, allowed: ${allowed}${isEncodedTwice(secret) ? twice : ''}`)
}

const twice = ': it is encoded twice, decode it once'

/** True if the secret was probably encoded twice, as happens when a Secret of Kubernetes is filled by hand. */
function isEncodedTwice(secret: Buffer): boolean {
  return secret.length > 0 && secret.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}\n?$/.test(secret.toString('latin1'))
}

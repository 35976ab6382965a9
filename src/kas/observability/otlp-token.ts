import { readFile } from 'node:fs/promises'
import { KasError } from '../../lib/errors.ts'

const key = 'observability.tracing.otlp_token_secret_file'
/** what a header can carry, without blanks */
const form = /^[\x21-\x7e]+$/
/** Tokens of GitLab's users: GitLab's collector takes them in another header than its own (upstream). */
const gitlabTokenPrefix = 'glpat-'

/** The token by which a collector of traces knows kas; its file is read at each use. */
export class OtlpToken {
  readonly #file: string
  #token: string

  /** @throws KasError SETTINGS_INVALID, without what the file holds */
  static async read(file: string): Promise<OtlpToken> {
    const invalid = (problem: string, cause?: unknown) =>
      new KasError({ code: 'SETTINGS_INVALID', file, problems: [`${key}: ${problem}`] }, { cause })
    const token = await readToken(file).catch((cause: Error) => {
      throw invalid(`cannot be read: ${cause.message}`, cause)
    })
    if (token === undefined) throw invalid('found no token, allowed: printable characters without blanks')
    return new OtlpToken(file, token)
  }

  private constructor(file: string, token: string) {
    this.#file = file
    this.#token = token
  }

  /** With the token as it is now, else as last read: no trace is lost while the file is being replaced. */
  headers = async (): Promise<Record<string, string>> => {
    const token = await readToken(this.#file).catch(() => undefined) // the last good one counts
    if (token !== undefined) this.#token = token
    return this.#token.startsWith(gitlabTokenPrefix)
      ? { 'Private-Token': this.#token }
      : { Authorization: `Bearer ${this.#token}` }
  }
}

/** @returns undefined: what it holds is no token */
async function readToken(file: string): Promise<string | undefined> {
  const token = (await readFile(file, 'utf8')).trim()
  return form.test(token) ? token : undefined
}

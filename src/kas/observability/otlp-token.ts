import { readFile } from 'node:fs/promises'
import { KasError } from '../../lib/errors.ts'

const key = 'observability.tracing.otlp_token_secret_file'
/** characters of a header's value, without blanks */
const form = /^[\x21-\x7e]+$/
/** Prefix of GitLab users' tokens: GitLab's collector expects them in another header than its own tokens (upstream). */
const gitlabTokenPrefix = 'glpat-'

/** Token of kas for a collector of traces; its file is read at each use. */
export class OtlpToken {
  readonly #file: string
  #token: string

  /** @throws KasError SETTINGS_INVALID, which does not quote the file */
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

  /** Returns headers with the present token, else the last one: no trace is lost while the file is being replaced. */
  headers = async (): Promise<Record<string, string>> => {
    const token = await readToken(this.#file).catch(() => undefined) // the last good token stays
    if (token !== undefined) this.#token = token
    return this.#token.startsWith(gitlabTokenPrefix)
      ? { 'Private-Token': this.#token }
      : { Authorization: `Bearer ${this.#token}` }
  }
}

/** @returns undefined: the file has no token */
async function readToken(file: string): Promise<string | undefined> {
  const token = (await readFile(file, 'utf8')).trim()
  return form.test(token) ? token : undefined
}

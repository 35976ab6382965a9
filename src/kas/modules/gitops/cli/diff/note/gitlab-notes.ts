import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { SecureContext } from 'node:tls'
import * as z from 'zod'
import { errorText } from '../../../../../../lib/errors.ts'
import { printable } from '../../../../../../lib/printable.ts'
import { trustedContext } from '../../../../../../lib/trusted-authorities.ts'
import type { MergeRequestJob } from './merge-request-job.ts'

/** Limit of an answer of GitLab in bytes: a note has up to 1,000,000 characters. */
const maxAnswerBytes = 32 * 1024 * 1024

/** Notes in one answer of GitLab. */
const notesInPage = 20

/** Limit of answers with notes that are read: 2,000 notes. */
const maxPages = 100

/** Characters of GitLab's text that an error quotes. */
const maxQuoted = 200

const note = z.looseObject({ id: z.int().positive(), body: z.string(), author: z.looseObject({ id: z.int() }) })
const page = z.array(note).max(notesInPage)
const user = z.looseObject({ id: z.int() })

export type Note = z.output<typeof note>

interface Answer {
  readonly status: number
  /** number of the next page; empty: there is none */
  readonly nextPage: string
  readonly body: string
}

/**
 * Notes of one merge request, by GitLab's REST API. A request is sent once, and a redirect is not followed: it would get
 * the token.
 *
 * @see https://docs.gitlab.com/api/notes/#merge-requests
 */
export class GitlabNotes {
  readonly #job: MergeRequestJob
  readonly #signal: AbortSignal
  #context: Promise<SecureContext> | undefined

  /** @param signal - ends all requests; its reason is thrown */
  constructor(job: MergeRequestJob, signal: AbortSignal) {
    this.#job = job
    this.#signal = signal
  }

  /** @returns id of the token's user. @throws Error */
  async readUser(): Promise<number> {
    return this.#read(user, await this.#ask('GET', '/user')).id
  }

  /**
   * Reads the notes, the oldest first.
   *
   * @throws Error: also if there are more than can be read
   */
  async *list(): AsyncIterable<Note> {
    const query = `sort=asc&order_by=created_at&per_page=${notesInPage}`
    let next = '1'
    for (let pages = 0; next !== ''; pages++) {
      if (pages === maxPages)
        throw new Error(`the merge request has more than ${maxPages * notesInPage} notes, and none of them is found`)
      const answer = await this.#ask('GET', `${this.#path}?${query}&page=${next}`)
      yield* this.#read(page, answer)
      next = /^[1-9]\d{0,8}$/.test(answer.nextPage) ? answer.nextPage : ''
    }
  }

  /** @returns undefined: it has been deleted. @throws Error */
  async read(id: number): Promise<Note | undefined> {
    const answer = await this.#ask('GET', `${this.#path}/${id}`)
    return answer.status === 404 ? undefined : this.#read(note, answer)
  }

  /** @throws Error */
  async create(body: string): Promise<void> {
    this.#check(await this.#ask('POST', this.#path, { body }))
  }

  /** @throws Error */
  async update(id: number, body: string): Promise<void> {
    this.#check(await this.#ask('PUT', `${this.#path}/${id}`, { body }))
  }

  /** Deletes a note, if it is still there. @throws Error */
  async delete(id: number): Promise<void> {
    const answer = await this.#ask('DELETE', `${this.#path}/${id}`)
    if (answer.status !== 404) this.#check(answer)
  }

  get #path(): string {
    const { project, mergeRequest } = this.#job
    return `/projects/${project}/merge_requests/${mergeRequest}/notes`
  }

  #read<T>(schema: z.ZodType<T>, answer: Answer): T {
    this.#check(answer)
    try {
      return schema.parse(JSON.parse(answer.body))
    } catch (cause) {
      throw new Error(`${this.#job.api.host} did not answer as GitLab's API does`, { cause })
    }
  }

  #check({ status, body }: Answer): void {
    if (status >= 200 && status < 300) return
    throw new Error(`GitLab answered ${status}${this.#quoted(body)}`)
  }

  /** Quotes GitLab's text, which must not show the token. */
  #quoted(body: string): string {
    let text = ''
    try {
      const { message, error } = Object(JSON.parse(body)) as { message?: unknown; error?: unknown }
      const found = message ?? error
      text = typeof found === 'string' ? found : found === undefined ? '' : JSON.stringify(found)
    } catch {
      return '' // a page of a web server
    }
    const shown = this.#redacted(text).slice(0, maxQuoted)
    return shown === '' ? '' : `: ${printable(shown)}`
  }

  #redacted(text: string): string {
    return text.replaceAll(this.#job.token, '***')
  }

  async #ask(method: string, path: string, content?: object): Promise<Answer> {
    const { api, token } = this.#job
    const [pathname = '', query = ''] = path.split('?')
    const url = new URL(api)
    url.pathname = `${api.pathname.replace(/\/+$/, '')}${pathname}`
    url.search = query
    const body = content && JSON.stringify(content)
    const headers = {
      'private-token': token,
      accept: 'application/json',
      'user-agent': 'kas-diff',
      ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
    }
    const secure = url.protocol === 'https:' ? { secureContext: await this.#trusted() } : {}
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const request = url.protocol === 'https:' ? requestHttps : requestHttp
    request(url, { ...secure, method, headers, signal: this.#signal }, (response) => {
      answerOf(response).then(resolve, reject)
    })
      .on('error', reject)
      .end(body)
    return await promise.catch((cause: Error) => {
      if (this.#signal.aborted) throw this.#signal.reason
      throw new Error(this.#redacted(`${api.host}: ${errorText(cause)}`), { cause })
    })
  }

  #trusted(): Promise<SecureContext> {
    this.#context ??= trustedContext(this.#job.authorityFile, 'CI_SERVER_TLS_CA_FILE')
    return this.#context
  }
}

async function answerOf(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxAnswerBytes) throw new Error(`an answer has more than ${maxAnswerBytes} bytes`)
    chunks.push(chunk)
  }
  const { statusCode: status = 0, headers } = response
  return { status, nextPage: String(headers['x-next-page'] ?? ''), body: Buffer.concat(chunks).toString('utf8') }
}

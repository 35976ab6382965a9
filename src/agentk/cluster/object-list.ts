import { textAt } from '../../kubernetes/object.ts'
import { withQuery } from '../../kubernetes/path.ts'
import { withDeadline } from '../../lib/deadline.ts'
import { KasError } from '../../lib/errors.ts'
import type { ApiClient } from './api-client.ts'
import { maxEventBytes } from './watch-request.ts'

/** Limit of the characters that are kept of the API server's message. */
const maxMessage = 512
/** Limit of pages of one list: an API server that always names a next one would be asked without end. */
const maxPages = 10_000
/** Good pages after which the next one is twice as large, if a smaller one was needed before. */
const goodPages = 2

export interface ObjectListOptions {
  /** path of the collection, with or without a query */
  readonly path: string
  /** media types of pages, best first; undefined: JSON */
  readonly accept: string | undefined
  /** objects in the first page; halved whenever a page is larger than `maxEventBytes` */
  readonly pageSize: number
  /** limit for one page, in ms */
  readonly timeoutMs: number
}

/** End of a list or a watch, with its cause. */
export interface Refusal {
  /** status of the answer; 0: there was none */
  readonly status: number
  readonly error?: unknown
  /** message of the Status in the answer */
  readonly message?: string
  /** place in the list of an object that is too large to be read */
  readonly count?: number
  /** the status came as an event of the watch */
  readonly isFromEvent?: boolean
}

export interface Page {
  readonly status: 200
  readonly items: readonly unknown[]
  /** resourceVersion of the list */
  readonly version: string
  readonly isLast: boolean
}

interface ListBody {
  readonly metadata?: { readonly resourceVersion?: unknown; readonly continue?: unknown }
  /** null: empty, as Go writes it */
  readonly items?: unknown
}

/** Media types that ask for the metadata of objects alone. Servers that cannot do so send whole objects. */
export const metadataOnly = {
  object: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json',
  list: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json',
}

/** Lists all objects of a collection, page by page. */
export class ObjectList {
  readonly #client: Pick<ApiClient, 'json'>
  readonly #options: ObjectListOptions
  /** objects read so far */
  #count = 0
  #pages = 0
  /** objects in the next page */
  #limit: number
  #good = 0
  /** the API server's continue token; empty: the list begins */
  #next = ''

  constructor(client: Pick<ApiClient, 'json'>, options: ObjectListOptions) {
    this.#client = client
    this.#options = options
    this.#limit = options.pageSize
  }

  /**
   * Reads the next page. It halves `limit` until the page can be read.
   *
   * @returns a refusal with `count`: the next object is too large; with status 0 and without it: the list has too many
   * pages. @throws the connection's error, the signal's reason, or SyntaxError: the answer is no list
   */
  async page(signal: AbortSignal): Promise<Page | Refusal> {
    if (this.#pages >= maxPages) return endless
    for (;;) {
      try {
        const answer = await this.#ask(this.#options.accept, this.#limit, signal)
        if (answer.status !== 200) return refusalOf(answer)
        this.#grow()
        return this.#read(answer.body)
      } catch (error) {
        if (!isTooLarge(error)) throw error
        if (this.#limit === 1) return { status: 0, error, count: this.#count + 1 }
        this.#good = 0
        this.#limit = Math.floor(this.#limit / 2)
      }
    }
  }

  /** Skips the next object, and reads only its metadata. */
  async skip(signal: AbortSignal): Promise<Page | Refusal> {
    if (this.#pages >= maxPages) return endless
    const answer = await this.#ask(metadataOnly.list, 1, signal)
    return answer.status === 200 ? this.#read(answer.body) : refusalOf(answer)
  }

  #ask(accept: string | undefined, limit: number, signal: AbortSignal): Promise<{ status: number; body: unknown }> {
    const { path, timeoutMs } = this.#options
    const target = withQuery(path, { limit, continue: this.#next })
    const options = { maxBytes: maxEventBytes, ...(accept === undefined ? {} : { accept }) }
    return withDeadline({ ms: timeoutMs, signals: [signal] }, (timely) =>
      this.#client.json('GET', target, undefined, timely, options),
    )
  }

  #read(body: unknown): Page {
    const { metadata, items } = (body ?? {}) as ListBody
    const version = metadata?.resourceVersion
    const all = items === null ? [] : items
    if (!Array.isArray(all) || typeof version !== 'string') throw new SyntaxError('the answer is no list')
    this.#next = typeof metadata?.continue === 'string' ? metadata.continue : ''
    this.#count += all.length
    this.#pages += 1
    return { status: 200, items: all, version, isLast: this.#next === '' }
  }

  #grow(): void {
    this.#good += 1
    if (this.#good % goodPages === 0) this.#limit = Math.min(this.#limit * 2, this.#options.pageSize)
  }
}

const endless: Refusal = {
  status: 0,
  error: new KasError({ code: 'INVALID_MESSAGE', detail: `the API server's list has more than ${maxPages} pages` }),
}

function refusalOf({ status, body }: { status: number; body: unknown }): Refusal {
  const message = textAt(body, 'message').slice(0, maxMessage)
  return message ? { status, message } : { status }
}

export function isTooLarge(error: unknown): boolean {
  return error instanceof KasError && error.code === 'MESSAGE_TOO_LARGE'
}

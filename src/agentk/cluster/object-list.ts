import { textAt } from '../../kubernetes/object.ts'
import { withQuery } from '../../kubernetes/path.ts'
import { withDeadline } from '../../lib/deadline.ts'
import { KasError } from '../../lib/errors.ts'
import type { ApiClient } from './api-client.ts'
import { maxEventBytes } from './watch-request.ts'

/** Characters of the API server's message that are kept. */
const maxMessage = 512
/** Good pages after which the next one is twice as large, where a smaller one was needed. */
const goodPages = 2

export interface ObjectListOptions {
  /** of the collection, with or without a query */
  readonly path: string
  /** media types of pages, best first; undefined: JSON */
  readonly accept: string | undefined
  /** objects in a page at first: half as many whenever a page is larger than one object may be */
  readonly pageSize: number
  /** for one page. ms */
  readonly timeoutMs: number
}

/** Why a list or a watch has ended. */
export interface Refusal {
  /** of the answer; 0: there was none */
  readonly status: number
  readonly error?: unknown
  /** of the Status that the API server answered */
  readonly message?: string
  /** place in the list of the one object that is too large to be read */
  readonly count?: number
  /** the status came as an event of the watch, in the midst of it */
  readonly isFromEvent?: boolean
}

export interface Page {
  readonly status: 200
  readonly items: readonly unknown[]
  /** of the list */
  readonly version: string
  readonly isLast: boolean
}

interface ListBody {
  readonly metadata?: { readonly resourceVersion?: unknown; readonly continue?: unknown }
  /** null: none, as Go writes it */
  readonly items?: unknown
}

/** The media type of objects of which nothing but their metadata is sent, where the server can. */
export const metadataOnly = {
  object: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json',
  list: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json',
}

/** All objects of a collection, page by page. */
export class ObjectList {
  readonly #client: Pick<ApiClient, 'json'>
  readonly #options: ObjectListOptions
  /** objects so far */
  #count = 0
  /** of the next page */
  #limit: number
  #good = 0
  /** the API server's token; empty: from the beginning */
  #next = ''

  constructor(client: Pick<ApiClient, 'json'>, options: ObjectListOptions) {
    this.#client = client
    this.#options = options
    this.#limit = options.pageSize
  }

  /**
   * Halves `limit` until the page can be read.
   *
   * @returns a refusal with `count`: one object is too large, it is the next one. @throws the connection's error, or
   * the signal's reason, or SyntaxError: what came is no list
   */
  async page(signal: AbortSignal): Promise<Page | Refusal> {
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

  /** Goes on behind the next object, of which nothing but its metadata is read. */
  async skip(signal: AbortSignal): Promise<Page | Refusal> {
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
    return { status: 200, items: all, version, isLast: this.#next === '' }
  }

  #grow(): void {
    this.#good += 1
    if (this.#good % goodPages === 0) this.#limit = Math.min(this.#limit * 2, this.#options.pageSize)
  }
}

function refusalOf({ status, body }: { status: number; body: unknown }): Refusal {
  const message = textAt(body, 'message').slice(0, maxMessage)
  return message ? { status, message } : { status }
}

export function isTooLarge(error: unknown): boolean {
  return error instanceof KasError && error.code === 'MESSAGE_TOO_LARGE'
}

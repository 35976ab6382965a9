import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { pause } from '../../../lib/pause.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import { followWatch, maxEventBytes, type WatchEvent } from '../../cluster/watch-request.ts'

export interface ObjectWatchComponents<T> {
  readonly client: Pick<ApiClient, 'json' | 'send'>
  /** undefined: not to be kept */
  readonly read: (object: unknown) => T | undefined
  /** something has changed, or all has been listed */
  readonly onChange: () => void
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface ObjectWatchOptions {
  /** of the collection, such as `/apis/source.toolkit.fluxcd.io/v1/gitrepositories` */
  readonly path: string
  /** for the log: `gitrepositories.source.toolkit.fluxcd.io` */
  readonly resource: string
  readonly times?: Partial<typeof defaultTimes>
}

/** Milliseconds. All but the first are a fifth less or more. */
const defaultTimes = {
  /** a watch or a list that ends later than this after its time is cut: its server is frozen, or its connection dead */
  graceMs: 15_000,
  /** a watch lasts so long, then another goes on from there */
  watchMs: 60_000,
  /** all is listed again, whatever watches have said (as upstream) */
  relistMs: 600_000,
  /** after a failure, doubled up to the second */
  firstRetryMs: 1000,
  maxRetryMs: 30_000,
  /** somebody may have given the rights by then */
  deniedMs: 300_000,
}

/** Objects in a page at first: half as many whenever a page is larger than one object may be. */
const pageSize = 50

interface Page {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string }
  readonly items?: readonly unknown[]
}

/** How far a list has come. */
interface ListPlace {
  /** objects so far */
  count: number
  /** of the next page */
  limit: number
  /** the API server's token; empty: from the beginning */
  next: string
}

/**
 * All objects of one kind: listed, then watched. What fails is begun anew with a list, and until that answers the last
 * objects stay. Not client-node's informer: doc/decisions/0005 and 0008.
 */
export class ObjectWatch<T extends { readonly key: string }> {
  readonly #components: ObjectWatchComponents<T>
  readonly #options: ObjectWatchOptions
  readonly #times: typeof defaultTimes
  #objects = new Map<string, T>()
  #version = ''
  #isSynced = false
  /** the trouble that stands in the log */
  #logged: '' | 'denied' | 'failed' | 'tooLarge' = ''

  constructor(components: ObjectWatchComponents<T>, options: ObjectWatchOptions) {
    this.#components = components
    this.#options = options
    this.#times = { ...defaultTimes, ...options.times }
  }

  /** By key; those of the last answer while the API server is away. */
  get objects(): ReadonlyMap<string, T> {
    return this.#objects
  }

  /** All objects have been listed once. */
  get isSynced(): boolean {
    return this.#isSynced
  }

  /** Resolves when the API server has no such collection any more, or the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { firstRetryMs, maxRetryMs, deniedMs } = this.#times
    let failures = 0
    while (!signal.aborted) {
      let waitMs = 0
      const outcome = await this.#round(signal).catch((error: unknown) => ({ error, status: 0 }))
      if (signal.aborted || outcome.status === 404) return
      if (outcome.status === 200) failures = 0
      else if (outcome.status === 403) waitMs = deniedMs
      else waitMs = Math.min(firstRetryMs * 2 ** failures++, maxRetryMs)
      this.#report(outcome)
      if (waitMs > 0) await this.#pause(waitMs, signal)
    }
  }

  /** Lists, then watches until it is time to list again. @returns 200, or the status of the refusal */
  async #round(signal: AbortSignal): Promise<{ status: number }> {
    const { clock } = this.#components
    const { relistMs, maxRetryMs, firstRetryMs } = this.#times
    const listed = await this.#list(signal)
    if (listed !== 200) return { status: listed }
    const listedAt = clock.now()
    while (!signal.aborted && clock.now() - listedAt < relistMs) {
      const beganAt = clock.now()
      const hasHeld = () => clock.now() - beganAt >= maxRetryMs
      const status = await this.#watch(signal).catch((error: unknown) => {
        if (hasHeld()) return 410 // something on the way cuts what is long: no failure of the server
        throw error
      })
      if (status === 410 && hasHeld()) return { status: 200 }
      if (status !== 200) return { status }
      this.#logged = ''
      if (clock.now() - beganAt < firstRetryMs) await this.#pause(firstRetryMs, signal)
    }
    return { status: 200 }
  }

  async #list(signal: AbortSignal): Promise<number> {
    const { read } = this.#components
    const found = new Map<string, T>()
    const place = { count: 0, limit: pageSize, next: '' }
    let version = ''
    do {
      const { status, body } = await this.#page(place, signal)
      if (status !== 200) return status
      const { metadata, items = [] } = body as Page
      for (const item of items) {
        const object = read(item)
        if (object) found.set(object.key, object)
      }
      version = metadata?.resourceVersion ?? ''
      place.next = metadata?.continue ?? ''
      place.count += items.length
    } while (place.next)
    this.#objects = found
    this.#version = version
    this.#isSynced = true
    this.#components.onChange()
    return 200
  }

  /**
   * Halves `limit` until the page can be read. What comes after one object that is too large cannot be asked for: where
   * it goes on stands in the page with it.
   *
   * @throws KasError MESSAGE_TOO_LARGE: one object is
   */
  async #page(place: ListPlace, signal: AbortSignal): Promise<{ status: number; body: unknown }> {
    const { client } = this.#components
    const { path } = this.#options
    for (;;) {
      const query = `?limit=${place.limit}${place.next && `&continue=${encodeURIComponent(place.next)}`}`
      const timely = AbortSignal.any([signal, AbortSignal.timeout(this.#times.graceMs)])
      try {
        return await client.json('GET', path + query, undefined, timely, { maxBytes: maxEventBytes })
      } catch (error) {
        if (!isTooLarge(error)) throw error
        if (place.limit === 1) {
          this.#warn('tooLarge', { error, count: place.count + 1 }, 'An object of Flux is too large, none is read')
          throw error
        }
        place.limit = Math.floor(place.limit / 2)
      }
    }
  }

  /** @returns 200 when it has ended by itself, 410 when it cannot go on from there */
  async #watch(signal: AbortSignal): Promise<number> {
    const { client, clock, random } = this.#components
    const { watchMs, graceMs } = this.#times
    const lastMs = jittered(watchMs, random)
    const seconds = Math.max(1, Math.round(lastMs / 1000))
    const query = `?watch=1&allowWatchBookmarks=true&timeoutSeconds=${seconds}&resourceVersion=${this.#version}`
    const overdue = new AbortController()
    const cancel = clock.after(lastMs + graceMs, () => overdue.abort(new KasError({ code: 'DEADLINE_EXCEEDED' })))
    let status = 200
    try {
      const head = await followWatch(client, {
        path: this.#options.path + query,
        signal: AbortSignal.any([signal, overdue.signal]),
        onEvent: (event) => {
          status = event.type === 'ERROR' ? errorCode(event.object) : this.#apply(event)
          return status === 200
        },
      })
      return head === 200 ? status : head
    } finally {
      cancel()
    }
  }

  #apply({ type, object }: WatchEvent): number {
    this.#version = (object as { metadata?: { resourceVersion?: string } }).metadata?.resourceVersion ?? this.#version
    const found = type === 'BOOKMARK' ? undefined : this.#components.read(object)
    if (!found) return 200
    const known = this.#objects.get(found.key)
    if (type === 'DELETED') this.#objects.delete(found.key)
    else this.#objects.set(found.key, found)
    // most changes are of what is not read
    if (type === 'DELETED' || !isDeepStrictEqual(known, found)) this.#components.onChange()
    return 200
  }

  /** Each trouble once, until a watch has held. */
  #report({ status, error }: { status: number; error?: unknown }): void {
    if (status === 200 || status === 410) return // 410: the list is too old to go on from
    if (status === 403) this.#warn('denied', { verbs: ['list', 'watch'] }, 'agentk may not watch objects of Flux')
    else {
      const fields = error ? { error } : { status_code: status }
      this.#warn(isTooLarge(error) ? 'tooLarge' : 'failed', fields, 'Cannot watch objects of Flux')
    }
  }

  #warn(trouble: 'denied' | 'failed' | 'tooLarge', fields: object, sentence: string): void {
    if (this.#logged === trouble) return
    this.#logged = trouble
    this.#components.log.warn({ resource: this.#options.resource, ...fields }, sentence)
  }

  #pause(ms: number, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#components
    return pause(jittered(ms, random), clock, signal)
  }
}

/** A fifth less or more. */
function jittered(ms: number, random: () => number): number {
  return ms * (0.8 + 0.4 * random())
}

function isTooLarge(error: unknown): boolean {
  return error instanceof KasError && error.code === 'MESSAGE_TOO_LARGE'
}

/** Of the Status in an ERROR event. */
function errorCode(object: unknown): number {
  const { code } = object as { code?: unknown }
  return typeof code === 'number' && code !== 200 ? code : 500
}

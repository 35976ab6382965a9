import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { linkedController } from '../../../lib/signals.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import { isTooLarge, type Refusal } from '../../cluster/object-list.ts'
import { ObjectWatch, type WatchSink, type WatchTimes } from '../../cluster/object-watch.ts'

export interface FluxWatchComponents<T> {
  readonly client: Pick<ApiClient, 'json' | 'send'>
  /** undefined: not to be kept */
  readonly read: (object: unknown) => T | undefined
  /** something has changed, or all has been listed */
  readonly onChange: () => void
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface FluxWatchOptions {
  /** of the collection, such as `/apis/source.toolkit.fluxcd.io/v1/gitrepositories` */
  readonly path: string
  /** for the log: `gitrepositories.source.toolkit.fluxcd.io` */
  readonly resource: string
  readonly times?: Partial<WatchTimes>
}

/** Upstream lists as often. */
const defaultTimes: Partial<WatchTimes> = { watchMs: 60_000, relistMs: 600_000 }
const pageSize = 50

/** What is kept of all objects of one kind of Flux's. Until a list answers the last objects stay. */
export class FluxWatch<T extends { readonly key: string }> implements WatchSink {
  readonly #components: FluxWatchComponents<T>
  readonly #options: FluxWatchOptions
  #objects = new Map<string, T>()
  /** of the list that is being read */
  #listed: Map<string, T> | undefined
  #isSynced = false
  /** the trouble that stands in the log */
  #logged: '' | 'denied' | 'failed' | 'tooLarge' = ''
  #end: () => void = () => undefined

  constructor(components: FluxWatchComponents<T>, options: FluxWatchOptions) {
    this.#components = components
    this.#options = options
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
    const { client, clock, random } = this.#components
    const { path } = this.#options
    const times = { ...defaultTimes, ...this.#options.times }
    const ending = linkedController(signal)
    this.#end = () => ending.abort()
    await new ObjectWatch({ client, sink: this, clock, random }, { path, pageSize, times }).run(ending.signal)
    ending.dispose()
  }

  listing(): void {
    this.#listed = new Map()
  }

  put(object: unknown): void {
    const found = this.#components.read(object)
    if (!found) return
    const objects = this.#listed ?? this.#objects
    const known = objects.get(found.key)
    objects.set(found.key, found)
    // most changes are of what is not read
    if (!this.#listed && !isDeepStrictEqual(known, found)) this.#components.onChange()
  }

  gone(object: unknown): void {
    const found = this.#components.read(object)
    if (!found) return
    this.#objects.delete(found.key)
    this.#components.onChange()
  }

  /** There is no list with such an object. */
  leftOut(): void {}

  listed(): void {
    this.#objects = this.#listed ?? this.#objects
    this.#listed = undefined
    this.#isSynced = true
    this.#components.onChange()
  }

  following(): void {}

  /** Each trouble once, until a watch has held. */
  ended({ status, error, count }: Refusal): void {
    if (status === 200) this.#logged = ''
    else if (status === 404) this.#end()
    else if (status === 403) this.#warn('denied', { verbs: ['list', 'watch'] }, 'agentk may not watch objects of Flux')
    else if (count !== undefined) {
      this.#warn('tooLarge', { error, count }, 'An object of Flux is too large, none is read')
    } else if (status !== 410) {
      const fields = error ? { error } : { status_code: status }
      this.#warn(isTooLarge(error) ? 'tooLarge' : 'failed', fields, 'Cannot watch objects of Flux')
    }
  }

  #warn(trouble: 'denied' | 'failed' | 'tooLarge', fields: object, sentence: string): void {
    if (this.#logged === trouble) return
    this.#logged = trouble
    this.#components.log.warn({ resource: this.#options.resource, ...fields }, sentence)
  }
}

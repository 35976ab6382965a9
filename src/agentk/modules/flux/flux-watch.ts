import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { linkedController } from '../../../lib/signals.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import { KeptObjects } from '../../cluster/kept-objects.ts'
import { isTooLarge, type Refusal } from '../../cluster/object-list.ts'
import { ObjectWatch, type WatchTimes } from '../../cluster/object-watch.ts'

export interface FluxWatchComponents<T> {
  readonly client: Pick<ApiClient, 'json' | 'send'>
  /** reads one object; undefined: the object is not kept */
  readonly read: (object: unknown) => T | undefined
  /** called when an object has changed, and when all are listed */
  readonly onChange: () => void
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface FluxWatchOptions {
  /** path of the collection, such as `/apis/source.toolkit.fluxcd.io/v1/gitrepositories` */
  readonly path: string
  /** for the log: `gitrepositories.source.toolkit.fluxcd.io` */
  readonly resource: string
  readonly times?: Partial<WatchTimes>
}

/** Upstream lists at the same interval. */
const defaultTimes: Partial<WatchTimes> = { watchMs: 60_000, relistMs: 600_000 }
const pageSize = 50

/** Watches all objects of one kind of Flux, and logs each trouble once. */
export class FluxWatch<T extends { readonly key: string }> {
  readonly #components: FluxWatchComponents<T>
  readonly #options: FluxWatchOptions
  readonly #kept: KeptObjects<T>
  /** trouble that was logged last; empty: none since a watch ended well */
  #logged: '' | 'denied' | 'failed' | 'tooLarge' = ''
  #end: () => void = () => undefined

  constructor(components: FluxWatchComponents<T>, options: FluxWatchOptions) {
    const { read, onChange } = components
    this.#components = components
    this.#options = options
    this.#kept = new KeptObjects({ read, onChange, onEnded: (outcome) => this.#ended(outcome) })
  }

  /** Objects by key. While the API server is away, those of its last answer. */
  get objects(): ReadonlyMap<string, T> {
    return this.#kept.objects
  }

  /** All objects have been listed once. */
  get isSynced(): boolean {
    return this.#kept.isSynced
  }

  /** Resolves when the API server no longer serves the collection, or the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, clock, random } = this.#components
    const { path } = this.#options
    const times = { ...defaultTimes, ...this.#options.times }
    const ending = linkedController(signal)
    this.#end = () => ending.abort()
    await new ObjectWatch({ client, sink: this.#kept, clock, random }, { path, pageSize, times }).run(ending.signal)
    ending.dispose()
  }

  /** Logs each trouble once, until a watch ends well. */
  #ended({ status, error, count }: Refusal): void {
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

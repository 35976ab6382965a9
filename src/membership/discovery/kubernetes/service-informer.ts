import type { KubernetesListObject, KubernetesObject, ListWatch, Watch } from '@kubernetes/client-node'
import type { Clock } from '../../../lib/clock.ts'
import { pause } from '../../../lib/pause.ts'
import { jittered, type Random } from '../retry.ts'
import type { ClusterClient } from './cluster-client.ts'

/** Objects to list and watch. */
export interface Listed<T extends KubernetesObject> {
  readonly path: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
  list(): Promise<KubernetesListObject<T>>
}

export interface ServiceInformerComponents {
  readonly client: ClusterClient
  readonly clock: Clock
  readonly random: Random
}

export interface ServiceInformerOptions {
  /** longest pause before a watch that the server ended is opened again: client-node itself takes up to 30 s */
  readonly maxReopenMs: number
}

/**
 * client-node's informer, extended. It reports when its list is complete, and ends for good with its client. All its
 * failures arrive at `lost`, also those that would be unhandled.
 */
export class ServiceInformer<T extends KubernetesObject> {
  readonly #components: ServiceInformerComponents
  readonly #options: ServiceInformerOptions
  readonly #lost = Promise.withResolvers<unknown>()
  readonly #listed = Promise.withResolvers<void>()
  readonly #onChange: () => void
  readonly #informer: ListWatch<T>
  #isNotifying = false

  /** @param onChange - called after changes, once for all that came together */
  constructor(
    components: ServiceInformerComponents & { listed: Listed<T>; onChange: () => void },
    options: ServiceInformerOptions,
  ) {
    this.#components = components
    this.#options = options
    this.#onChange = components.onChange
    const { client, listed } = components
    const { path, labelSelector, fieldSelector } = listed
    const list = async () => checked(await client.inTime(listed.list()))
    const delayFn = (ms: number) => this.#beforeReopening(ms)
    const { ListWatch } = client.library
    this.#informer = new ListWatch(path, this.#watch(), list, false, labelSelector, fieldSelector, { delayFn })
    this.#informer.on('change', () => this.#notify())
    this.#informer.on('error', (error) => this.#lose(error))
    client.closed.addEventListener('abort', () => this.#lose(client.closed.reason), { once: true })
  }

  /** Resolves with the reason once the informer has failed; it does nothing more then. */
  get lost(): Promise<unknown> {
    return this.#lost.promise
  }

  get objects(): readonly T[] {
    return this.#informer.list()
  }

  /** Resolves once the objects are listed; rejects with the reason if it fails before. */
  async start(): Promise<void> {
    this.#informer.start().catch((error: unknown) => this.#lose(error))
    await Promise.race([this.#listed.promise, this.lost.then((error) => Promise.reject(error))])
  }

  #lose(error: unknown): void {
    this.#lost.resolve(error)
    void this.#informer.stop()
  }

  /** Returns a watch for the informer, which opens it once it has processed its list. */
  #watch(): Watch {
    const { client } = this.#components
    const watch = new client.library.Watch(client.config)
    const open = watch.watch.bind(watch)
    watch.watch = async (path, query, onEvent, onDone) => {
      this.#listed.resolve()
      const nothing = new AbortController()
      if (client.closed.aborted) return nothing // stopped meanwhile, which the informer does not check
      const opened = open(path, query, (phase, object) => this.#pass(phase, object, onEvent), onDone)
      try {
        const request = await opened
        if (client.closed.aborted) request.abort()
        return request
      } catch (error) {
        this.#lose(error) // for example, no token file
        return nothing
      }
    }
    return watch
  }

  /** Passes on an event. An invalid one would be an unhandled rejection in client-node. */
  #pass(phase: string, object: unknown, onEvent: (phase: string, object: unknown) => void): void {
    const { metadata, code } = (object ?? {}) as { metadata?: unknown; code?: unknown }
    if (phase === 'ERROR' && code !== 410) {
      this.#lose(Object.assign(new Error('the watch failed'), { code, body: object }))
    } else if (phase !== 'ERROR' && (typeof metadata !== 'object' || metadata === null)) {
      this.#lose(new Error('the watch sent what is no event'))
    } else onEvent(phase, object)
  }

  #notify(): void {
    if (this.#isNotifying) return
    this.#isNotifying = true
    queueMicrotask(() => {
      this.#isNotifying = false
      if (this.#components.client.closed.aborted) return
      try {
        this.#onChange()
      } catch (error) {
        this.#lose(error) // an object of another form
      }
    })
  }

  #beforeReopening(ms: number): Promise<void> {
    const { client, clock, random } = this.#components
    return pause(jittered(Math.min(ms, this.#options.maxReopenMs), random), clock, client.closed)
  }
}

/** Checks a list. An invalid answer would otherwise count as an empty list, and no members would be found. */
function checked<T extends KubernetesObject>(list: KubernetesListObject<T>): KubernetesListObject<T> {
  if (!list?.metadata?.resourceVersion) throw new Error('the API server sent what is no list')
  return { ...list, items: list.items ?? [] }
}

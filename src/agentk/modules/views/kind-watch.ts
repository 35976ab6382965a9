import { linkedController } from '../../../lib/signals.ts'
import type { WatchTimes } from '../../cluster/object-watch.ts'
import { type FollowedKind, type PartState, PartWatch, type PartWatchComponents } from './part-watch.ts'
import type { FollowState } from './record.ts'

export interface KindWatchOptions extends FollowedKind {
  /** where it is followed if it may not be in the whole cluster */
  readonly namespaces: readonly string[]
  readonly times: WatchTimes
}

interface Part {
  readonly watch: PartWatch
  stop(): void
}

/**
 * Follows one kind: in the whole cluster or, while that is forbidden, namespace by namespace. Tells its objects and how
 * far it is followed.
 */
export class KindWatch {
  readonly #components: PartWatchComponents
  readonly #options: KindWatchOptions
  readonly #whole: PartWatch
  /** by namespace */
  readonly #parts = new Map<string, Part>()
  readonly #running = new Set<Promise<void>>()
  #signal: AbortSignal = AbortSignal.abort()
  /** JSON of the state that was told */
  #told = ''

  constructor(components: PartWatchComponents, options: KindWatchOptions) {
    this.#components = components
    this.#options = options
    this.#whole = this.#watchOf(undefined, () => this.#endParts())
  }

  /** Resolves when the signal aborts; its objects stay. Once. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal
    this.#changed()
    await this.#whole.run(signal)
    await Promise.all(this.#running)
  }

  #watchOf(namespace: string | undefined, onListing: () => void): PartWatch {
    const onState = () => this.#changed()
    return new PartWatch(this.#components, { ...this.#options, namespace, onState, onListing })
  }

  #changed(): void {
    if (this.#signal.aborted) return
    const { kind, namespaces } = this.#options
    if (this.#whole.isForbidden && kind.isNamespaced) for (const namespace of namespaces) this.#beginPart(namespace)
    const state = this.#state()
    const told = JSON.stringify(state)
    if (told === this.#told) return
    this.#told = told
    this.#components.sink.state(kind, state)
  }

  #beginPart(namespace: string): void {
    if (this.#parts.has(namespace)) return
    const stopping = linkedController(this.#signal)
    const watch = this.#watchOf(namespace, () => undefined)
    const stop = () => {
      stopping.abort()
      stopping.dispose()
    }
    this.#parts.set(namespace, { watch, stop })
    const running = watch.run(stopping.signal).finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** All of it is listed from now on: what is not there is gone with that list. */
  #endParts(): void {
    for (const { stop } of this.#parts.values()) stop()
    this.#parts.clear()
  }

  #state(): FollowState {
    const parts = [...this.#parts]
    const followed = parts.filter(([, { watch }]) => watch.state.is !== 'refused')
    const refusedNamespaces = parts.filter(([, { watch }]) => watch.state.is === 'refused').map(([name]) => name)
    const watches = followed.length === 0 ? [this.#whole] : followed.map(([, { watch }]) => watch)
    const leftOut = watches.flatMap((watch) => [...watch.namesLeftOut])
    return { ...worst(watches.map(({ state }) => state)), refusedNamespaces, leftOut }
  }
}

const order: readonly PartState['is'][] = ['stale', 'syncing', 'refused', 'live']

/** Of those that are alike, the one that has been so the longest. */
function worst(states: readonly PartState[]): PartState {
  const sorted = [...states].sort(
    (one, other) => order.indexOf(one.is) - order.indexOf(other.is) || one.since - other.since,
  )
  return sorted[0] as PartState
}

import { linkedController } from '../../../../lib/signals.ts'
import type { WatchTimes } from '../../../cluster/object-watch.ts'
import type { FollowState } from '../store/record.ts'
import { type FollowedKind, type PartState, PartWatch, type PartWatchComponents } from './part-watch.ts'

export interface KindWatchOptions extends FollowedKind {
  /** namespaces in which the kind is followed if it may not be in the whole cluster */
  readonly namespaces: readonly string[]
  readonly times: WatchTimes
  /** resolves when objects may come; absent: at once */
  readonly isReady?: Promise<void>
}

/**
 * Follows one kind: in the whole cluster or, while that is forbidden, namespace by namespace. Passes on its objects and
 * its state.
 */
export class KindWatch {
  readonly #components: PartWatchComponents
  readonly #options: KindWatchOptions
  readonly #whole: PartWatch
  /** by namespace */
  readonly #parts = new Map<string, PartWatch>()
  #stopParts: () => void = () => undefined
  readonly #running = new Set<Promise<void>>()
  #signal: AbortSignal = AbortSignal.abort()
  /** JSON of the last state that was passed on */
  #sentState = ''

  constructor(components: PartWatchComponents, options: KindWatchOptions) {
    this.#components = components
    this.#options = options
    this.#whole = this.#watchOf(undefined, () => this.#endParts())
  }

  /** Resolves when the signal aborts; the objects stay. May be called once. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal
    this.#changed()
    await this.#options.isReady
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
    if (this.#whole.isForbidden && kind.isNamespaced && this.#parts.size === 0) this.#beginParts(namespaces)
    const state = this.#state()
    const text = JSON.stringify(state)
    if (text === this.#sentState) return
    this.#sentState = text
    this.#components.sink.state(kind, state)
  }

  #beginParts(namespaces: readonly string[]): void {
    const stopping = linkedController(this.#signal)
    this.#stopParts = () => {
      stopping.abort()
      stopping.dispose()
    }
    for (const namespace of namespaces)
      this.#parts.set(
        namespace,
        this.#watchOf(namespace, () => undefined),
      )
    for (const watch of this.#parts.values()) {
      const running = watch.run(stopping.signal).finally(() => this.#running.delete(running))
      this.#running.add(running)
    }
  }

  /** Ends the watches of namespaces: the list of the whole cluster replaces them, and removes what is not there. */
  #endParts(): void {
    this.#stopParts()
    this.#parts.clear()
  }

  #state(): FollowState {
    const parts = [...this.#parts]
    const followed = parts.filter(([, { state }]) => state.is !== 'refused').map(([, watch]) => watch)
    const refusedNamespaces = parts.filter(([, { state }]) => state.is === 'refused').map(([namespace]) => namespace)
    const watches = followed.length === 0 ? [this.#whole] : followed
    const leftOut = watches.flatMap((watch) => [...watch.namesLeftOut])
    const isPartial = parts.length > 0 ? { isPartial: true } : {}
    return { ...worst(watches.map(({ state }) => state)), refusedNamespaces, ...isPartial, leftOut }
  }
}

const order: readonly PartState['is'][] = ['stale', 'syncing', 'aside', 'refused', 'live']

/** Returns the first state by `order`; of equal states, the oldest one. */
function worst(states: readonly PartState[]): PartState {
  const sorted = [...states].sort(
    (one, other) => order.indexOf(one.is) - order.indexOf(other.is) || one.since - other.since,
  )
  return sorted[0] as PartState
}

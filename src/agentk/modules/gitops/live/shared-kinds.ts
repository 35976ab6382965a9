import type { ObjectKey } from '../../../../kubernetes/key.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { clockDelay } from '../../../../lib/pause.ts'
import { abortable } from '../../../../lib/signals.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { ClusterKinds } from './cluster-kinds.ts'

/** Age at which kinds are read again. ms */
const maxAgeMs = 60_000
/** A new definition is served a moment later: attempts of discovery, and the pause between them. */
const discovery = { attempts: 20, pauseMs: 250 }

export interface SharedKindsComponents {
  readonly lane: ApiLane
  readonly clock: Clock
  /** ends a shared read; each caller has its own signal */
  readonly signal: AbortSignal
}

/** Kinds that the API server serves, for all sources. Concurrent callers share one read. */
export class SharedKinds {
  readonly #components: SharedKindsComponents
  #current: ClusterKinds | undefined
  #readAt = 0
  #reading: Promise<ClusterKinds> | undefined

  constructor(components: SharedKindsComponents) {
    this.#components = components
  }

  /** @throws KasError UNREACHABLE, the connection's error, or the signal's reason */
  async current(signal: AbortSignal): Promise<ClusterKinds> {
    const isFresh = Math.abs(this.#components.clock.now() - this.#readAt) < maxAgeMs // the clock may be set back
    return this.#current && isFresh ? this.#current : await this.read(signal)
  }

  /** Reads the current kinds. @throws as `current` */
  read(signal: AbortSignal): Promise<ClusterKinds> {
    const { lane, clock, signal: ended } = this.#components
    this.#reading ??= ClusterKinds.read(lane, ended)
      .then((kinds) => {
        this.#readAt = clock.now()
        this.#current = kinds
        return kinds
      })
      .finally(() => {
        this.#reading = undefined
      })
    return abortable(this.#reading, signal)
  }

  /**
   * Returns the kinds, with this one if it is served.
   *
   * @param isDefined - its definition was just applied: the call waits for the kind. @throws as `current`
   */
  async with(key: ObjectKey, version: string, isDefined: boolean, signal: AbortSignal): Promise<ClusterKinds> {
    if (this.#current?.find(key, version)) return this.#current
    const attempts = isDefined ? discovery.attempts : 1
    for (let attempt = 1; ; attempt++) {
      const kinds = await this.read(signal)
      if (kinds.find(key, version) || attempt === attempts) return kinds
      await clockDelay(this.#components.clock, discovery.pauseMs, signal)
    }
  }
}

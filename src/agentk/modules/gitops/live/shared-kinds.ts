import type { ObjectKey } from '../../../../kubernetes/key.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { clockDelay } from '../../../../lib/pause.ts'
import { abortable } from '../../../../lib/signals.ts'
import type { ApiLane } from '../../../cluster/api-lanes.ts'
import { ClusterKinds } from './cluster-kinds.ts'

/** What was read so long ago is read again. ms */
const maxAgeMs = 60_000
/** A definition that was accepted is served a moment later: discovery is read so often, with such pauses. */
const discovery = { attempts: 20, pauseMs: 250 }

export interface SharedKindsComponents {
  readonly lane: ApiLane
  readonly clock: Clock
  /** ends what is asked: who waits has a signal of his own */
  readonly signal: AbortSignal
}

/** What the API server serves, for all sources: asked once for all that want to know at the same time. */
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
    const isFresh = this.#components.clock.now() - this.#readAt < maxAgeMs
    return this.#current && isFresh ? this.#current : await this.read(signal)
  }

  /** As it is now. @throws as `current` */
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
   * With the kind, if it is there.
   *
   * @param isDefined - its definition has just been taken: it is waited for. @throws as `current`
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

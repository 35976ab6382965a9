import type { LargeEvent } from './large-event.ts'
import type { Refusal } from './object-list.ts'

/** What a list or a watch calls. Objects are the API server's, read with care. */
export interface WatchSink {
  /** A list begins: what is not put until `listed` is gone then. */
  listing(): void
  put(object: unknown): void
  /** With what the watch sends of it, or with `metadata` alone. */
  deleted(object: unknown): void
  /** It is too large to be read. */
  leftOut(object: Omit<LargeEvent, 'type'>): void
  listed(): void
  /** Whether changes are reported from now on. */
  following(is: boolean): void
  /**
   * A list or a watch has ended: 200 in time, 410 where all is listed again, else the status of the refusal, 0 with an
   * error. It goes on by itself, unless the signal aborts meanwhile.
   */
  ended(outcome: Refusal): void
}

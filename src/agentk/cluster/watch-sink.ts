import type { LargeEvent } from './large-event.ts'
import type { Refusal } from './object-list.ts'

/** Receiver of a list or a watch. Objects come from the API server: any field may be absent. */
export interface WatchSink {
  /** A list begins. Objects that are not put until `listed` do not exist any more. */
  listing(): void
  put(object: unknown): void
  /** @param object - as the watch sends it, or with `metadata` alone */
  deleted(object: unknown): void
  /** @param object - one that is too large to be read */
  leftOut(object: Omit<LargeEvent, 'type'>): void
  listed(): void
  /** @param is - true: changes are reported from now on */
  following(is: boolean): void
  /**
   * Called when a list or a watch has ended: 200 in time, 410 if all objects are listed again, else the status of the
   * refusal. An error has status 0. The sender continues by itself, unless the signal aborts.
   */
  ended(outcome: Refusal): void
}

import type { Present } from '../access/present.ts'
import { eventKind, namingKinds } from '../access/visibility.ts'
import type { Judgement } from '../store/judgement.ts'
import type { EventChange, FollowStates, ReadonlyEvents, ReadonlyRecords, RecordChange } from '../store/record.ts'

export interface PresentFeedComponents {
  readonly records: ReadonlyRecords
  readonly states: FollowStates
  readonly events: ReadonlyEvents
  readonly present: Present
}

/** Keeps what there is to ask rights about: of records and what is said of them, of events, and of what is left out. */
export class PresentFeed {
  readonly #components: PresentFeedComponents

  /** With all that is there. */
  constructor(components: PresentFeedComponents) {
    const { records, events, present } = components
    this.#components = components
    for (const record of records.all()) {
      present.add(record.kind, record.namespace)
      present.serves(record, 1)
      this.#noteNeeds(records.judged(record.uid))
    }
    for (const { ns } of events.all()) present.add(eventKind, ns)
  }

  /** @returns whether a kind is in a namespace now where there was none of it, or the last of it is gone */
  change({ before, after, judged }: RecordChange): boolean {
    const { present } = this.#components
    this.#noteNeeds(judged?.after)
    if (before === after) return false
    if (after) present.serves(after, 1)
    if (before) present.serves(before, -1)
    const isNew = after && present.add(after.kind, after.namespace)
    const isLast = before && present.delete(before.kind, before.namespace)
    return isNew === true || isLast === true
  }

  eventChange({ before, after }: EventChange): void {
    const { present } = this.#components
    if (after) present.add(eventKind, after.ns)
    if (before) present.delete(eventKind, before.ns)
  }

  /** What is not followed, or left out, is shown to who may list it. */
  noteStates(): void {
    const { states, events, present } = this.#components
    for (const [kind, { refusedNamespaces, leftOut }] of [...states.all(), ...events.states.all()]) {
      present.note(kind)
      for (const { namespace } of leftOut) present.note(kind, namespace)
      for (const namespace of refusedNamespaces) {
        for (const one of [kind, ...namingKinds]) present.note(one, namespace)
      }
    }
  }

  /** What somebody must be able to list to get why an object is not well. */
  #noteNeeds(judgement: Judgement | undefined): void {
    const { records, present } = this.#components
    for (const { needs } of judgement ?? []) {
      for (const [key, namespace] of needs) {
        const kind = key === eventKind.key ? eventKind : records.kindOf(key)
        if (kind) present.note(kind, namespace || undefined)
      }
    }
  }
}

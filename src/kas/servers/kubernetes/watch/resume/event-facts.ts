/** Properties of a watch event that kas reads. */
export interface EventFacts {
  /** `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR` */
  readonly type: string
  /** resourceVersion of the event's object; undefined: it has none */
  readonly resourceVersion: string | undefined
  /** a bookmark after all objects that existed when the watch began (`sendInitialEvents`) */
  readonly endsInitialEvents: boolean
}

/** Longest resourceVersion that kas keeps. API servers write numbers of at most 20 digits. */
export const maxResourceVersionChars = 200

/** What an event of a watch says of itself. */
export interface EventFacts {
  /** `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR` */
  readonly type: string
  /** of its object; undefined: it has none */
  readonly resourceVersion: string | undefined
  /** a bookmark behind all that was there as the watch began (`sendInitialEvents`) */
  readonly endsInitialEvents: boolean
}

/** Of the texts that kas keeps of a watch. API servers write numbers of at most 20 digits. */
export const maxResourceVersionChars = 200

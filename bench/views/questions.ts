/** What the bench says to its programs, and hears from them, over IPC. Times are those of the machine's clock, in ms. */

/** Of the API double. */
export interface DoubleSettings {
  readonly objects: number
  readonly key: string
  readonly certificate: string
}

export type DoubleQuestion =
  /** answered once somebody has asked for its kinds */
  | { readonly kind: 'asked' }
  /** kinds can be found from now on: before, who asks for them waits */
  | { readonly kind: 'release' }
  /** when the first list was asked for, and the last one was written */
  | { readonly kind: 'lists' }
  /** so many changes, at even distances */
  | { readonly kind: 'change'; readonly perSecond: number; readonly seconds: number; readonly among: 'all' | 'family' }
  /** there is a parent with so many children now */
  | { readonly kind: 'family'; readonly children: number }

export interface ListsAnswer {
  readonly begunAt: number
  readonly endedAt: number
  readonly bytes: number
}

/** A Pod says `restarts` from `at` on. */
export interface Change {
  readonly uid: string
  readonly restarts: number
  readonly at: number
}

/** Of those who look. */
export interface ViewersSettings {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

export type ViewersQuestion =
  /** a view for each of `count` sockets; answered by `First` once each has its first update whose state is live */
  | { readonly kind: 'open'; readonly count: number; readonly query: object }
  /** of the last view that was opened; answered by `First` */
  | { readonly kind: 'page'; readonly node: string; readonly limit: number }
  /** changes of rows since the last such question: `Change[]` */
  | { readonly kind: 'seen' }

export interface First {
  /** when the last of them had it */
  readonly at: number
  readonly ms: number
  readonly bytes: number
  /** ids of its rows, in their order */
  readonly order: readonly string[]
}

/** Of agentk. */
export type ProbeQuestion = { readonly kind: 'stall' | 'anew' }

/** How late timers of the main thread were since the last `anew`, in ms. */
export interface Stall {
  readonly most: number
  readonly p99: number
}

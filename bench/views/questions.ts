/** Messages over IPC between the bench and its programs. Times are those of the machine's clock, in ms. */

/** Settings of the API double. */
export interface DoubleSettings {
  readonly objects: number
  readonly key: string
  readonly certificate: string
}

export type DoubleQuestion =
  /** answered once a client has asked for its kinds */
  | { readonly kind: 'asked' }
  /** lets clients discover kinds from now on; before, they wait */
  | { readonly kind: 'release' }
  /** times when the first list was requested, and the last one was written */
  | { readonly kind: 'lists' }
  /** makes so many changes, at even intervals */
  | { readonly kind: 'change'; readonly perSecond: number; readonly seconds: number; readonly among: 'all' | 'family' }
  /** adds a parent with so many children */
  | { readonly kind: 'family'; readonly children: number }

export interface ListsAnswer {
  readonly begunAt: number
  readonly endedAt: number
  readonly bytes: number
}

/** A change of a Pod to `restarts` at `at`. */
export interface Change {
  readonly uid: string
  readonly restarts: number
  readonly at: number
}

/** Settings of the viewers. */
export interface ViewersSettings {
  readonly url: string
  /** headers of the requests of each user */
  readonly headers: readonly Readonly<Record<string, string>>[]
}

export type ViewersQuestion =
  /** opens a view of a user for each of `count` sockets; answered by `First` once each has its first live update */
  | { readonly kind: 'open'; readonly count: number; readonly query: object; readonly user: 0 | 1 }
  /** asks for a page of the last opened view; answered by `First` */
  | { readonly kind: 'page'; readonly node: string; readonly limit: number }
  /** asks for changes of rows since the last such question: `Change[]` */
  | { readonly kind: 'seen' }

export interface First {
  /** time when the last of them had it */
  readonly at: number
  readonly ms: number
  readonly bytes: number
  /** ids of its rows, in their order */
  readonly order: readonly string[]
}

/** A question to agentk's probe. */
export type ProbeQuestion = { readonly kind: 'stall' | 'anew' }

/** Delays of timers of the main thread since the last `anew`, in ms. */
export interface Stall {
  readonly most: number
  readonly p99: number
}

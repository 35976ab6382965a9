/** The end of a watch or an exec that nobody asked for. */
export interface End {
  /** as `performance.now()` */
  readonly at: number
  /** as a server ends what it has told whole; else it was cut */
  readonly inOrder: boolean
}

/** A replica that left; times as `performance.now()`. */
export interface Leave {
  readonly replica: string
  /** all graces counted from the moment before SIGTERM: nothing may end before */
  readonly graceEndsAt: number
  readonly exitedAt: number
}

/** An end is seen a little after it has happened, on a busy machine too. ms */
const noticeMs = 2000

/** Those that no replica's grace explains: something was cut too early, or by something else. */
export function unexplained(ends: readonly End[], leaves: readonly Leave[]): End[] {
  return ends.filter(({ at }) => {
    return !leaves.some(({ graceEndsAt, exitedAt }) => at >= graceEndsAt && at <= exitedAt + noticeMs)
  })
}

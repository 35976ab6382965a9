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
  /** of the listen grace, counted from the moment before SIGTERM: no watch may end before */
  readonly listenEndsAt: number
  /** all graces counted so: nothing else may end before */
  readonly graceEndsAt: number
  readonly exitedAt: number
}

/** An end is seen a little after it has happened, on a busy machine too. ms */
const noticeMs = 2000

/** Those that no replica's grace explains: something was cut too early, or by something else. */
export function unexplained(
  ends: readonly End[],
  leaves: readonly Leave[],
  since: 'listenEndsAt' | 'graceEndsAt',
): End[] {
  return ends.filter(({ at }) => {
    return !leaves.some((leave) => at >= leave[since] && at <= leave.exitedAt + noticeMs)
  })
}

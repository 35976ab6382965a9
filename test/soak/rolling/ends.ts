/** The end of a watch or an exec that its user did not ask for. */
export interface End {
  /** as `performance.now()` */
  readonly at: number
  /** ended by a complete answer of the server; otherwise it was cut */
  readonly inOrder: boolean
}

/** A replica that left; times as `performance.now()`. */
export interface Leave {
  readonly replica: string
  /** end of the listen grace, counted from the moment before SIGTERM: no watch may end before */
  readonly listenEndsAt: number
  /** end of all graces, counted likewise: no other call may end before */
  readonly graceEndsAt: number
  readonly exitedAt: number
}

/** Delay until an end is noticed, on a busy machine too. ms */
const noticeMs = 2000

/** Ends that no replica's grace explains: the call was cut too early, or for another reason. */
export function unexplained(
  ends: readonly End[],
  leaves: readonly Leave[],
  since: 'listenEndsAt' | 'graceEndsAt',
): End[] {
  return ends.filter(({ at }) => {
    return !leaves.some((leave) => at >= leave[since] && at <= leave.exitedAt + noticeMs)
  })
}

import type { Finding } from './findings.ts'

/** Time that a clock is ahead of this machine's, between two bounds. ms */
export type Ahead = readonly [least: number, most: number]

/** Resolution of `Date`. ms */
const dateStepMs = 1000
/** Difference from which it is reported. ms */
const noteMs = 5000
/** Difference from which it is a fault: GitLab accepts signatures of kas for 30 s before and behind its own time. ms */
const failedMs = 25_000

/**
 * Reads the difference from the `Date` of an answer.
 *
 * @param sentAt - time at which its request was sent, since 1970. ms
 * @param receivedAt - time at which the answer came, since 1970. ms
 */
export function aheadByDate(
  date: string | null | undefined,
  { sentAt, receivedAt }: { readonly sentAt: number; readonly receivedAt: number },
): Ahead | undefined {
  const at = Date.parse(date ?? '')
  return Number.isNaN(at) ? undefined : [at - receivedAt, at + dateStepMs - sentAt]
}

/**
 * @param whose - `GitLab's`
 * @param ahead - undefined: the answer has no time
 */
export function clockFinding(subject: string, whose: string, ahead: Ahead | undefined): Finding {
  const check = 'clocks'
  if (!ahead) return { check, state: 'skipped', subject, text: `${whose} answer has no Date that can be read` }
  const [least, most] = ahead
  const apartMs = Math.max(0, least, -most)
  if (apartMs < noteMs) {
    const within = Math.ceil(Math.max(Math.abs(least), Math.abs(most)) / 1000)
    return { check, state: 'ok', subject, text: `${whose} clock and this one are within ${within} s` }
  }
  const text = `${whose} clock is ${Math.round(apartMs / 1000)} s ${least > 0 ? 'ahead of' : 'behind'} this one`
  const advice = 'set both by a time server: timedatectl says whether a machine is'
  return { check, state: apartMs < failedMs ? 'note' : 'failed', subject, text, advice }
}

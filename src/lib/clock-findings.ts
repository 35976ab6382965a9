import type { Finding } from './findings.ts'

/** How far a clock is ahead of this machine's: between the two. ms */
export type Ahead = readonly [least: number, most: number]

/** `Date` leaves out what is less than a second. ms */
const dateStepMs = 1000
/** Farther apart it is reported. ms */
const noteMs = 5000
/** GitLab takes what kas signs for 30 s before and behind its own time. ms */
const failedMs = 25_000

/**
 * By the `Date` of an answer.
 *
 * @param sentAt - when its request was sent, since 1970. ms
 * @param receivedAt - when the answer came
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
 * @param ahead - undefined: it has sent no time
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

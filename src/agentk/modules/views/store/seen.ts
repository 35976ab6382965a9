import { isDeepStrictEqual } from 'node:util'
import { type Onset, remember, sinceBy } from '../../../health/kas/onset.ts'
import type { Choice, Judgement } from './judgement.ts'

/** What is remembered of a judgement, to say since when: of each choice, by its needs. */
export type Seen = readonly { readonly needs: Choice['needs']; readonly sight: Onset }[]

/**
 * The times of a judgement: of findings that have none, when agentk saw them begin, or when it saw them first.
 *
 * @param before - after the check before
 * @param isLive - the object was followed before this check
 */
export function timed(
  judgement: Judgement | undefined,
  before: Seen,
  moment: { readonly now: number; readonly isLive: boolean },
): { readonly judgement: Judgement | undefined; readonly seen: Seen } {
  if (!judgement) {
    const resting = before.flatMap(({ needs, sight }) => {
      const after = remember(sight, undefined, moment)
      return after ? [{ needs, sight: after }] : []
    })
    return { judgement: undefined, seen: resting }
  }
  const seen: { needs: Choice['needs']; sight: Onset }[] = []
  const choices = judgement.map((choice): Choice => {
    const { needs, finding } = choice
    const known = before.find((one) => isDeepStrictEqual(one.needs, needs))?.sight
    const sight = remember(known, finding, moment)
    if (!sight) return choice
    seen.push({ needs, sight })
    if (!finding || finding.word === 'Healthy') return choice
    const by = sinceBy(sight)
    const since = 'since' in by ? { since: by.since } : { seen: by.atLeast }
    return notPutOff({ ...choice, finding: { ...finding, ...since } }, sight, moment.now)
  })
  return { judgement: choices, seen }
}

/** A grace that begins now, as one does of a time to come, has begun when it was seen first. */
function notPutOff(choice: Choice, { first }: Onset, now: number): Choice {
  const { finding, word } = choice
  if (finding?.due === undefined || finding.from !== now || word !== 'Progressing') return choice
  const due = first + finding.due - finding.from
  if (due > now) return { ...choice, finding: { ...finding, due, from: first } }
  return { ...choice, word: 'Degraded', finding: { ...finding, word: 'Degraded', due: undefined } }
}

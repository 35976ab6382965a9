import { isDeepStrictEqual } from 'node:util'
import { remember, type Sight, sinceBy } from '../../../health/kas/sight.ts'
import type { Choice, Judgement } from './judgement.ts'

/** What is remembered of a judgement, to say since when: of each choice, by its needs. */
export type Seen = readonly { readonly needs: Choice['needs']; readonly sight: Sight }[]

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
  const seen: { needs: Choice['needs']; sight: Sight }[] = []
  const choices = judgement.map((choice): Choice => {
    const { needs, finding } = choice
    const known = before.find((one) => isDeepStrictEqual(one.needs, needs))?.sight
    const sight = remember(known, finding, moment)
    if (!sight) return choice
    seen.push({ needs, sight })
    if (!finding || finding.word === 'Healthy') return choice
    const by = sinceBy(sight)
    return { ...choice, finding: 'since' in by ? { ...finding, since: by.since } : { ...finding, seen: by.atLeast } }
  })
  return { judgement: choices, seen }
}

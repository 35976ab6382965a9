import { isDeepStrictEqual } from 'node:util'
import type { ArgoStatus } from '../../../health/argo/health.ts'
import type { Finding, Need } from '../../../health/kas/finding.ts'
import { type Onset, remember, sinceBy } from '../../../health/kas/onset.ts'
import type { Opinion } from '../../../health/kas/opinion.ts'

/** Opinion on an object by itself, for callers who may list all of `needs`. */
export interface Choice extends Opinion {
  readonly needs: readonly Need[]
}

/** Choices in order: a caller gets the first whose needs all hold. The last has none. */
export type Judgement = readonly Choice[]

const noNeeds: readonly Need[] = []

/**
 * @param findings - findings of the rules for causes, in the order in which callers get them
 * @param bare - opinion on the object without any finding
 * @param opinionBy - opinion on the object with one finding
 * @returns undefined: the object is well, for every caller
 */
export function judgementOf(
  findings: readonly Finding[],
  bare: Opinion,
  opinionBy: (finding: Finding) => Opinion,
): Judgement | undefined {
  const choices: Choice[] = []
  if (bare.by === 'users') choices.push({ ...bare, needs: noNeeds })
  else for (const one of findings) choices.push({ ...opinionBy(one), needs: one.needs })
  if (choices.at(-1)?.needs.length !== 0) choices.push({ ...bare, needs: noNeeds })
  return choices.every((one) => isWell(one) && one.by === bare.by) ? undefined : choices
}

export const isWell = ({ word, finding }: Opinion) => word === 'Healthy' && finding === undefined

/** @param holds - true if a caller may list a kind in a namespace */
export function chosenOf(judgement: Judgement | undefined, holds: (need: Need) => boolean): Choice | undefined {
  return judgement?.find(({ needs }) => needs.every(holds))
}

/** True if both are equal, apart from the times at which time alone changes them. */
export function isSameJudgement(one: Judgement | undefined, other: Judgement | undefined): boolean {
  return one === other || isDeepStrictEqual(one?.map(withoutDue), other?.map(withoutDue))
}

/** True if both are equal, apart from their needs and from the times at which time alone changes them. */
export function isSameChoice(one: Choice | undefined, other: Choice | undefined): boolean {
  const bare = (choice: Choice | undefined) => choice && { ...withoutDue(choice), needs: noNeeds }
  return one === other || isDeepStrictEqual(bare(one), bare(other))
}

const withoutDue = ({ finding, ...rest }: Choice) => ({
  ...rest,
  finding: finding && { ...finding, due: 0, from: 0, until: 0 },
})

/** Time at which time alone may change the judgement, in ms since 1970; undefined: never. */
export function dueOf(judgement: Judgement | undefined): number | undefined {
  const times = (judgement ?? []).flatMap(({ finding }) => [finding?.due ?? [], finding?.until ?? []].flat())
  return times.length > 0 ? Math.min(...times) : undefined
}

/**
 * Returns the judgement after its time is due, if the object is not kept to be judged again.
 *
 * @param bare - opinion on the object without any finding
 */
export function overdue(judgement: Judgement, bare: Opinion, now: number): Judgement | undefined {
  const choices = judgement.map((choice): Choice => {
    const { finding, needs } = choice
    if (finding?.until !== undefined && finding.until <= now) return { ...bare, needs }
    if (finding?.due === undefined || finding.due > now) return choice
    const word: ArgoStatus = 'Degraded'
    return { ...choice, word, finding: { ...finding, word, due: undefined } }
  })
  return choices.every((one) => isWell(one) && one.by === bare.by) ? undefined : choices
}

/** Memory of a judgement, to know since when: the onset of each choice, by its needs. */
export type Seen = readonly { readonly needs: Choice['needs']; readonly onset: Onset }[]

/**
 * Adds times to a judgement. A finding without a time gets the time at which agentk saw it begin, or saw it first.
 *
 * @param before - memory after the last check
 * @param moment - `isLive`: the object was followed before this check
 */
export function timed(
  judgement: Judgement | undefined,
  before: Seen,
  moment: { readonly now: number; readonly isLive: boolean },
): { readonly judgement: Judgement | undefined; readonly seen: Seen } {
  if (!judgement) {
    const resting = before.flatMap(({ needs, onset }) => {
      const after = remember(onset, undefined, moment)
      return after ? [{ needs, onset: after }] : []
    })
    return { judgement: undefined, seen: resting }
  }
  const seen: { needs: Choice['needs']; onset: Onset }[] = []
  const choices = judgement.map((choice): Choice => {
    const { needs, finding } = choice
    const known = before.find((one) => isDeepStrictEqual(one.needs, needs))?.onset
    const onset = remember(known, finding, moment)
    if (!onset) return choice
    seen.push({ needs, onset })
    if (!finding || finding.word === 'Healthy') return choice
    const by = sinceBy(onset)
    const since = 'since' in by ? { since: by.since } : { seen: by.atLeast }
    return notPutOff({ ...choice, finding: { ...finding, ...since } }, onset, moment.now)
  })
  return { judgement: choices, seen }
}

/** Lets a grace period that would begin now, as after a time in the future, begin when the finding was seen first. */
function notPutOff(choice: Choice, { first }: Onset, now: number): Choice {
  const { finding, word } = choice
  if (finding?.due === undefined || finding.from !== now || word !== 'Progressing') return choice
  const due = first + finding.due - finding.from
  if (due > now) return { ...choice, finding: { ...finding, due, from: first } }
  return { ...choice, word: 'Degraded', finding: { ...finding, word: 'Degraded', due: undefined } }
}

import { isDeepStrictEqual } from 'node:util'
import type { ArgoStatus } from '../../../health/argo/health.ts'
import type { Finding, Need } from '../../../health/kas/finding.ts'
import type { Opinion } from '../../../health/kas/opinion.ts'

/** How an object is by itself, as whoever may list `needs` gets it. */
export interface Choice extends Opinion {
  readonly needs: readonly Need[]
}

/** In order: a caller gets the first whose needs all hold. The last has none. */
export type Judgement = readonly Choice[]

const noNeeds: readonly Need[] = []

/**
 * @param findings - of the rules for causes, in the order in which callers get them
 * @param bare - what is said of the object without any of them
 * @param opinionBy - what is said of it with one of them
 * @returns undefined: it is well, whoever asks
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

/** @param holds - whether a caller may list a kind in a namespace */
export function chosenOf(judgement: Judgement | undefined, holds: (need: Need) => boolean): Choice | undefined {
  return judgement?.find(({ needs }) => needs.every(holds))
}

/** But for when time alone may change it. */
export function isSameJudgement(one: Judgement | undefined, other: Judgement | undefined): boolean {
  return one === other || isDeepStrictEqual(one?.map(withoutDue), other?.map(withoutDue))
}

export function isSameChoice(one: Choice | undefined, other: Choice | undefined): boolean {
  return one === other || isDeepStrictEqual(one && withoutDue(one), other && withoutDue(other))
}

const withoutDue = ({ needs: _, finding, ...rest }: Choice) => ({
  ...rest,
  finding: finding && { ...finding, due: 0, from: 0, until: 0 },
})

/** When time alone may change it. ms since 1970; undefined: never */
export function dueOf(judgement: Judgement | undefined): number | undefined {
  const times = (judgement ?? []).flatMap(({ finding }) => [finding?.due ?? [], finding?.until ?? []].flat())
  return times.length > 0 ? Math.min(...times) : undefined
}

/**
 * What it becomes by time alone, where the object is not kept to be judged anew.
 *
 * @param bare - what is said of the object without any finding
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

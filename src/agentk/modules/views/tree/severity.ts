import { type ArgoWord, argoWords, type KstatusWord, kasWords } from '../../../../proto/views-json.ts'
import { inArgosWords } from '../../../health/verdict.ts'
import type { Health } from '../store/record.ts'

/** System whose verdict orders and counts. */
export type VerdictSide = 'argo' | 'kstatus' | 'kas'

/** Words of a system; a severity is an index of them. Each system has as many. */
export const wordsOf = (side: VerdictSide): readonly ArgoWord[] => (side === 'kas' ? kasWords : argoWords)

const kstatusWords: readonly KstatusWord[] = ['Current', 'InProgress', 'Terminating', 'Failed', 'Unknown']
const severities = new Map(argoWords.map((word, severity) => [word, severity]))
const kasSeverities = new Map(kasWords.map((word, severity) => [word, severity]))

/** 0: no verdict */
export function severityOf(health: Health | undefined, side: Exclude<VerdictSide, 'kas'>): number {
  if (!health) return 0
  return severities.get(side === 'argo' ? health.argo : inArgosWords[health.kstatus]) ?? 0
}

/** @param word - '': no verdict */
export const kasSeverityOf = (word: ArgoWord) => kasSeverities.get(word) ?? 0

export function worstKstatus(words: Iterable<KstatusWord>): KstatusWord {
  let worst = 0
  for (const word of words) worst = Math.max(worst, kstatusWords.indexOf(word))
  return kstatusWords[worst] as KstatusWord
}

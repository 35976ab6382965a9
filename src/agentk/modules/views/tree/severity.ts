import { type ArgoWord, argoWords, type KstatusWord } from '../../../../proto/views-json.ts'
import type { Health } from '../store/record.ts'

/** Whose verdict orders and counts. */
export type VerdictSide = 'argo' | 'kstatus'

/** A severity is an index of `argoWords`. */
const kstatusWords: readonly KstatusWord[] = ['Current', 'InProgress', 'Terminating', 'Failed', 'Unknown']
const severities = new Map(argoWords.map((word, severity) => [word, severity]))
const inArgosWords: Readonly<Record<KstatusWord, ArgoWord>> = {
  Current: 'Healthy',
  InProgress: 'Progressing',
  Terminating: 'Progressing',
  Failed: 'Degraded',
  Unknown: 'Unknown',
}

/** 0: no verdict */
export function severityOf(health: Health | undefined, side: VerdictSide): number {
  if (!health) return 0
  return severities.get(side === 'argo' ? health.argo : inArgosWords[health.kstatus]) ?? 0
}

export function worstKstatus(words: Iterable<KstatusWord>): KstatusWord {
  let worst = 0
  for (const word of words) worst = Math.max(worst, kstatusWords.indexOf(word))
  return kstatusWords[worst] as KstatusWord
}

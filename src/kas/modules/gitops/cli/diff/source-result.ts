import { exitCode } from '../../preview/exit-code.ts'
import type { Preview } from '../../preview/preview.ts'

/** Result of one source. */
export interface SourceResult {
  /** id of the source */
  readonly source: string
  /** the preview, or the reason why there is none, a sentence */
  readonly preview: Preview | { readonly problem: string }
  /** sentence about the commit in the cluster, if the branch lacks it or that is unknown */
  readonly history?: string | undefined
}

/** Exit codes, the worst first: a source that was not compared may change anything. */
const worstFirst = [5, 4, 1, 0] as const

/** Exit code if nothing is compared. */
export const notComparedCode = 5

/** @returns the exit code of one source */
export function resultCode({ preview }: Pick<SourceResult, 'preview'>): 0 | 1 | 4 | 5 {
  return 'problem' in preview ? notComparedCode : exitCode(preview)
}

/** @returns the worst exit code */
export function worstCode(results: readonly SourceResult[]): 0 | 1 | 4 | 5 {
  const codes = new Set(results.map(resultCode))
  return worstFirst.find((code) => codes.has(code)) ?? 0
}

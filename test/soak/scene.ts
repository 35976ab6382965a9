import type { Kube } from './kube.ts'

/** Results of a scene. */
export interface Findings {
  /** one line each, as printed */
  readonly figures: readonly string[]
  /** failed checks, a line each; empty: none */
  readonly failures: readonly string[]
  /** figures for programs, printed as JSON in the last line */
  readonly data?: Readonly<Record<string, unknown>>
}

export interface Stage {
  /** client of the cluster through kas */
  readonly kube: Kube
  /** prints the beginning of a long step on the screen */
  readonly say: (text: string) => void
  /** aborts when the run is interrupted */
  readonly signal: AbortSignal
}

/** Returns the middle value, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (sorted.length - 1) / 2
  return ((sorted[Math.floor(at)] ?? Number.NaN) + (sorted[Math.ceil(at)] ?? Number.NaN)) / 2
}

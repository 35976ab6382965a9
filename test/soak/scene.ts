import type { Kube } from './kube.ts'

/** What a scene found. */
export interface Findings {
  /** a line each, as printed */
  readonly figures: readonly string[]
  /** what did not hold, a line each; empty: all did */
  readonly failures: readonly string[]
  /** the figures for programs: printed as JSON, the last line of all */
  readonly data?: Readonly<Record<string, unknown>>
}

export interface Stage {
  /** the way through kas */
  readonly kube: Kube
  /** a step that takes a while; for the screen */
  readonly say: (text: string) => void
  /** the run was interrupted */
  readonly signal: AbortSignal
}

/** The middle value; the mean of the two in the middle if there are two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (sorted.length - 1) / 2
  return ((sorted[Math.floor(at)] ?? Number.NaN) + (sorted[Math.ceil(at)] ?? Number.NaN)) / 2
}

import { keyName } from '../../../../kubernetes/key.ts'
import { printable } from '../../../../lib/printable.ts'
import type { DriftedObject, SourceState } from '../../../../proto/gen/gitops_states_pb.ts'

/** Paths in a line: the first ones say what somebody did. */
const maxPathsShown = 3

/** Returns the status of the condition `Drifted`, with since when it holds: ms since the epoch. */
export function driftStatus({ counts, drifted, driftMode, comparedAtMs, atMs }: SourceState): {
  readonly status: 'True' | 'False' | 'Unknown'
  readonly reason: string
  readonly message: string
  readonly sinceMs: number
} {
  const of = (kind: string) => drifted.filter((one) => one.kind === kind)
  const first = (kind: string) => Math.min(Number(atMs), ...of(kind).map(({ sinceMs }) => Number(sinceMs)))
  const { drifted: differing = 0, notCompared = 0 } = counts ?? {}
  if (differing > 0) {
    const message = of('drifted').slice(0, maxPathsShown).map(driftLine).join('; ')
    return { status: 'True', reason: 'ChangedInCluster', message, sinceMs: first('drifted') }
  }
  if (notCompared > 0) {
    const message = of('not_compared').slice(0, maxPathsShown).map(driftLine).join('; ')
    return { status: 'Unknown', reason: 'NotCompared', message, sinceMs: first('not_compared') }
  }
  const sinceMs = Number(comparedAtMs) || Number(atMs)
  if (comparedAtMs === 0n) {
    const message = 'no round has compared the cluster with Git since this pod leads'
    return { status: 'Unknown', reason: 'NotComparedYet', message, sinceMs }
  }
  if (driftMode !== 'correct' && driftMode !== 'report') {
    const message = `drift: { mode: ${driftMode || 'none'} }: changes in the cluster are not followed`
    return { status: 'Unknown', reason: 'NotFollowed', message, sinceMs }
  }
  return { status: 'False', reason: 'AsInGit', message: '', sinceMs }
}

/** Returns one line about an object, for people. It has times, and no ages: the text stays while the facts do. */
export function driftLine(object: DriftedObject): string {
  return printable(`${object.key ? keyName(object.key) : ''}: ${whatOf(object)}${byText(object)}${thenText(object)}`)
}

function whatOf({ kind, deleted, path, morePaths, text }: DriftedObject): string {
  if (kind === 'not_compared') return `cannot be compared: ${text}`
  const more = morePaths + Math.max(0, path.length - maxPathsShown)
  const names = path.slice(0, maxPathsShown).join(', ')
  const places = names === '' ? (more > 0 ? `${more} fields` : 'it') : more > 0 ? `${names} and ${more} more` : names
  if (kind === 'would_change') return `an apply would change ${places}`
  if (deleted) return 'it is gone'
  return text === '' ? `${places} changed` : `it has changed, and cannot be compared: ${text}`
}

function byText({ kind, manager, operation, changedAtMs }: DriftedObject): string {
  if (kind !== 'drifted') return ''
  if (manager === '') return ', by whom is not known'
  const at = changedAtMs === 0n ? '' : ` at ${timeText(changedAtMs)}`
  return `, by ${manager} (${operation})${at}`
}

function thenText({ kind, correctAtMs, left, holdUntilMs, manager }: DriftedObject): string {
  if (kind !== 'drifted') return ''
  if (correctAtMs !== 0n) return `; it is set back at ${timeText(correctAtMs)}`
  if (left === 'hold') return `; it stays until ${timeText(holdUntilMs)}, as an annotation of it asks`
  if (left === 'fight') return `; it stays: ${manager} has changed it back three times`
  if (left === 'added') return '; it stays: the source does not set added_by'
  return left === 'paused' ? '; it stays while the source is paused' : '; it stays, as the mode of drift says'
}

function timeText(ms: bigint): string {
  return `${new Date(Number(ms)).toISOString().slice(0, 19)}Z`
}

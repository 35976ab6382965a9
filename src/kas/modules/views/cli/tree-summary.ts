import { printable } from '../../../../lib/printable.ts'
import { type ArgoWord, type Cause, kasWords, type Row } from '../../../../proto/views-json.ts'
import { culpritKey, culpritText } from './cause-text.ts'
import { cut } from './lines.ts'
import { rootCounts, rootsOf, type ShownView, verdictOf } from './shown-view.ts'
import { isWell, type Layout, rowText, shapeOf } from './verdict-text.ts'

/** Returns `30 degraded, 380 healthy`: the worst first, including objects that are on no page. */
export function countsText(counts: Readonly<Partial<Record<ArgoWord, number>>>): string {
  const counted = kasWords.toReversed().filter((word) => (counts[word] ?? 0) > 0)
  return counted.map((word) => `${counts[word]} ${word === '' ? 'without a verdict' : word.toLowerCase()}`).join(', ')
}

/**
 * Sums up a tree for a screen that has no room for all of it. The text has the number of roots by verdict, and one line
 * per cause, the worst first.
 *
 * ```
 * 424 roots: 30 degraded, 394 healthy
 * ✗ shop/Deployment/web  2 Pods, e.g. web-6d4b9-x7k2p: OOMKilled
 * … 12 more causes
 * ```
 *
 * @param room - lines that it may have
 * @returns lines, each with its end; empty: there are no roots
 */
export function summaryText(model: ShownView, { paint, columns }: Layout, room: number): string {
  const counts = rootCounts(model)
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
  if (total === 0) return ''
  const head = `${total} ${total === 1 ? 'root' : 'roots'}: ${countsText(counts)}`
  const { rows, areAll } = causesOf(model, counts)
  const left = Math.max(0, room - 1)
  const shown = rows.length > left || !areAll ? rows.slice(0, Math.max(0, left - 1)) : rows
  const lines = shown.map((row) => cut(`${shapeOf(row, paint)} ${causeText(row)}`, columns))
  const rest = restText(rows.length - shown.length, areAll)
  return [head, ...lines, ...(rest && left > 0 ? [paint.faint(rest)] : [])].map((line) => `${line}\n`).join('')
}

/** @param areAll - false: more unhealthy roots are on no page */
function restText(count: number, areAll: boolean): string {
  if (areAll) return count === 0 ? '' : `… ${count} more ${count === 1 ? 'cause' : 'causes'}`
  const those = 'those of roots that are not shown'
  return count === 0 ? `… and ${those}` : `… ${count} more causes, and ${those}`
}

function causeText(row: Row): string {
  const { z } = row
  const cause = [culpritText(row), printable(z?.reason ?? ''), printable(z?.text ?? '')].filter(Boolean).join(': ')
  return `${rowText(row)}  ${cause}`
}

/**
 * Returns the key of a cause. Pods of several workloads are several causes, even if they fail alike; Pods without an
 * owner are one.
 */
function keyOf(row: Row, z: Cause): string {
  const { kind, namespace, name, reason, text } = z
  if (kind !== 'Pod') return culpritKey(z)
  return JSON.stringify(culpritText(row) === '' ? [namespace, reason, text] : [namespace, name])
}

/** Returns the first root of each cause. */
function causesOf(
  model: ShownView,
  counts: ReturnType<typeof rootCounts>,
): { readonly rows: readonly Row[]; readonly areAll: boolean } {
  const roots = rootsOf(model)
  const byCause = new Map<string, Row>()
  for (const row of roots) {
    const key = row.z && keyOf(row, row.z)
    if (key !== undefined && !byCause.has(key)) byCause.set(key, row)
  }
  const known = roots.filter((row) => !isWell(verdictOf(row))).length
  const sick = kasWords.filter((word) => !isWell(word)).reduce((sum, word) => sum + (counts[word] ?? 0), 0)
  return { rows: [...byCause.values()], areAll: known >= sick }
}

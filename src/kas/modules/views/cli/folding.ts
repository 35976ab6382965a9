import { Counter } from '../../../../lib/counter.ts'
import { printable } from '../../../../lib/printable.ts'
import type { Row } from '../../../../proto/views-json.ts'
import { isBundle, verdictOf } from './shown-view.ts'
import { isWell, kindText } from './verdict-text.ts'

/** What of a tree is not shown but with `-v`, and the line that counts it. */

/** Kinds that are named on that line. */
const maxNamedKinds = 8

/** Without a verdict and without children; a bundle of such objects, too. */
export function isWithoutVerdict(row: Row): boolean {
  const { h, c, w } = row
  return !h?.[0] && !h?.[2] && !w && (!c || isBundle(row))
}

/** There is one in each namespace, or for each change: it says nothing, as long as it is well. */
export function isUsual(row: Row): boolean {
  const { k, n, w, z, f = [], c = 0 } = row
  if (z || !isWell(verdictOf(row)) || !isWell(w ?? '')) return false
  if (k === 'ConfigMap') return n === 'kube-root-ca.crt'
  if (k === 'ServiceAccount') return n === 'default' && c === 0
  if (k === 'apps/ReplicaSet') return f.includes('0/0 ready') && c === 0
  return k === 'apps/ControllerRevision' || (k === 'discovery.k8s.io/EndpointSlice' && !isBundle(row))
}

/** @returns empty: nothing is folded */
export function foldedText(rows: readonly Row[]): string {
  if (rows.length === 0) return ''
  const counts = new Counter<string>()
  for (const row of rows) counts.add(row.k, isBundle(row) ? (row.c ?? 1) : 1)
  const kinds = [...counts.counts].sort(([, one], [, other]) => other - one)
  const named = kinds.slice(0, maxNamedKinds).map(([kind, count]) => `${count} ${kindText(kind)}`)
  const others = kinds.length > maxNamedKinds ? `, and ${kinds.length - maxNamedKinds} kinds more` : ''
  return printable(`· folded (-v): ${named.join(', ')}${others}`)
}

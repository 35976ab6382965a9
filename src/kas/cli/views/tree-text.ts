import { printable } from '../../../lib/printable.ts'
import type { Row } from '../../../proto/views-json.ts'
import type { ShownView } from './shown-view.ts'
import { ageText, type Paint, whyOf } from './verdict-text.ts'

/** In place of rows. */
export const nothingFound = 'nothing is found that you may list\n'
/** As deep as lines are drawn: what is below is counted. */
const maxDepth = 16
/** Kinds that are named on the line of those that have no verdict. */
const maxNamedKinds = 8

/**
 * The tree as lines: shape, kind/name, facts, age, why.
 *
 * ```
 * ✓ shop/apps/Deployment/web  3/3 ready  5d
 * └─ ✓ apps/ReplicaSet/web-6d4  3/3 ready  5d
 * ```
 *
 * @param folds - roots without a verdict and without children, as roles are, are counted on one line
 */
export function treeText(model: ShownView, paint: Paint, folds = false): string {
  const lines: string[] = []
  const drawn = new Set<string>() // an agent may say anything, circles too
  const walk = (node: string, prefix: string, depth: number, namespace: string) => {
    const all = model.children(node).filter((row) => !drawn.has(row.u))
    for (const row of all) drawn.add(row.u)
    const rows = folds && depth === 0 ? all.filter((row) => !isQuiet(row)) : all
    const more = model.pages.get(node)?.more ?? 0
    rows.forEach((row, index) => {
      const isLast = index === rows.length - 1 && more === 0
      const [branch, below] = depth === 0 ? ['', ''] : isLast ? ['└─ ', '   '] : ['├─ ', '│  ']
      lines.push(`${prefix}${branch}${rowText(row, { model, paint, namespace })}\n`)
      if (depth < maxDepth) walk(row.u, prefix + below, depth + 1, row.ns ?? '')
    })
    if (rows.length < all.length) lines.push(`${paint.faint(printable(foldedText(all.filter(isQuiet))))}\n`)
    if (more > 0) lines.push(`${prefix}${depth === 0 ? '' : '└─ '}${paint.faint(printable(`… ${more} more`))}\n`)
  }
  walk('', '', 0, '')
  return lines.join('') || nothingFound
}

/** A bundle of such objects, too. */
function isQuiet({ u, h, c, w }: Row): boolean {
  return !h?.[0] && !w && (!c || u.startsWith('b:'))
}

function foldedText(rows: readonly Row[]): string {
  const counts = new Map<string, number>()
  for (const { k, c = 1 } of rows) counts.set(k, (counts.get(k) ?? 0) + c)
  const kinds = [...counts].sort(([, one], [, other]) => other - one)
  const named = kinds.slice(0, maxNamedKinds).map(([kind, count]) => `${count} ${kind}`)
  const others = kinds.length > maxNamedKinds ? `, and ${kinds.length - maxNamedKinds} kinds more` : ''
  return `· without a verdict: ${named.join(', ')}${others}`
}

function rowText(row: Row, { model, paint, namespace }: { model: ShownView; paint: Paint; namespace: string }): string {
  const argo = row.h?.[0] ?? ''
  const place = row.ns && row.ns !== namespace ? `${row.ns}/` : ''
  const closed = row.c && !model.pages.has(row.u) ? printable(`${row.c} below`) : ''
  const below = row.w && row.w !== argo ? `below: ${paint.verdict(row.w)}` : ''
  const parts = [
    `${paint.shape(argo)} ${printable(`${place}${row.k}/${row.n}`)}`,
    ...(row.f ?? []).map(printable),
    closed,
    paint.faint(ageText(row.t, model.at)),
    below,
    whyOf(row),
  ]
  return parts.filter(Boolean).join('  ')
}

/** What the whole says of itself, where that is worth a line. */
export function stateText({ state }: ShownView, paint: Paint): string {
  const wrong = (state.problems ?? []).map((one) => `${printable(one)}\n`).join('')
  const left = wrong + (state.notFollowed?.length ? `not followed: ${printable(state.notFollowed.join(', '))}\n` : '')
  if (state.is === 'live') return left && paint.faint(left)
  const at = new Date(state.since)
  const since = state.since && !Number.isNaN(at.getTime()) ? ` since ${at.toISOString()}` : ''
  return `${printable(state.is)}${since}${state.why ? `: ${printable(state.why)}` : ''}\n${left}`
}

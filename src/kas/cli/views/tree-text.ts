import { printable } from '../../../lib/printable.ts'
import { type ArgoWord, kasWords, type Row } from '../../../proto/views-json.ts'
import { causeLines } from './cause-text.ts'
import { linkLines } from './link-text.ts'
import { isBundle, type ShownView, verdictOf } from './shown-view.ts'
import { ageText, isWell, kindText, type Layout, sinceText, whyOf } from './verdict-text.ts'

/** As deep as lines are drawn: what is below is counted. */
const maxDepth = 16
/** Kinds that are named on the line of those that are folded. */
const maxNamedKinds = 8

interface Place {
  /** before the branch */
  readonly prefix: string
  readonly depth: number
  /** of the row above */
  readonly namespace: string
  /** why it is not well stands above already */
  readonly isExplained: boolean
}

/**
 * The tree as lines: shape, kind/name, facts, age, why. Below a root that is not well stands its cause.
 *
 * ```
 * ✗ degraded  shop/Deployment/web  1 of 3 available: reduced  since 14:02 (4m)
 *     2 Pods, e.g. web-6d4b9-x7k2p: OOMKilled: container app: exit code 137, 4 restarts in all
 *     next: kubectl -n shop logs web-6d4b9-x7k2p -c app --previous
 * └─ ◐ progressing  ReplicaSet/web-6d4b9  1/3 ready  5d
 * ```
 *
 * @param folds - roots without a verdict and without children, as roles are, are counted on one line
 * @param isAsked - it is asked for by its name: what it is linked with stands below it
 */
export function treeText(
  model: ShownView,
  layout: Layout,
  { folds = false, isAsked = () => false }: { folds?: boolean; isAsked?: (row: Row) => boolean } = {},
): string {
  return new TreeText(model, layout, { folds, isAsked }).text
}

class TreeText {
  readonly #model: ShownView
  readonly #layout: Layout
  readonly #folds: boolean
  readonly #isAsked: (row: Row) => boolean
  readonly #lines: string[] = []
  /** an agent may say anything, circles too */
  readonly #drawn = new Set<string>()

  constructor(
    model: ShownView,
    layout: Layout,
    { folds, isAsked }: { folds: boolean; isAsked: (row: Row) => boolean },
  ) {
    this.#model = model
    this.#layout = layout
    this.#isAsked = isAsked
    this.#folds = folds && !layout.isVerbose
    this.#walk('', { prefix: '', depth: 0, namespace: '', isExplained: false })
  }

  get text(): string {
    return this.#lines.map((line) => `${line}\n`).join('')
  }

  #walk(node: string, { prefix, depth, namespace, isExplained }: Place): void {
    const all = this.#model.children(node).filter(({ u }) => !this.#drawn.has(u))
    for (const { u } of all) this.#drawn.add(u)
    const { paint } = this.#layout
    const rows = all.filter((row) => !this.#isFolded(row, depth))
    const rest = [
      ...(rows.length < all.length ? [foldedText(all.filter((row) => this.#isFolded(row, depth)))] : []),
      ...moreText(this.#model, node),
    ]
    rows.forEach((row, index) => {
      const isLast = index === rows.length - 1 && rest.length === 0
      const [branch, below] = depth === 0 ? ['', ''] : isLast ? ['└─ ', '   '] : ['├─ ', '│  ']
      this.#lines.push(`${prefix}${branch}${this.#rowText(row, namespace, isExplained)}`)
      const explains = row.z !== undefined && !isExplained && !this.#isOpenGroup(row)
      if (explains) this.#lines.push(...causeLines(row, this.#layout, `${prefix}${below}    `))
      if (this.#isAsked(row)) this.#lines.push(...linkLines(row, this.#layout, `${prefix}${below}    `))
      const place = { prefix: prefix + below, depth: depth + 1, namespace: row.ns ?? '' }
      if (depth < maxDepth) this.#walk(row.u, { ...place, isExplained: isExplained || explains })
    })
    rest.forEach((line, index) => {
      const branch = depth === 0 ? '' : index === rest.length - 1 ? '└─ ' : '├─ '
      this.#lines.push(`${prefix}${branch}${paint.faint(printable(line))}`)
    })
  }

  /** Each of what is in it says why. */
  #isOpenGroup({ u }: Row): boolean {
    return u.startsWith('g:') && this.#model.pages.has(u)
  }

  #isFolded(row: Row, depth: number): boolean {
    if (this.#layout.isVerbose) return false
    return isUsual(row) || (this.#folds && depth === 0 && isQuiet(row))
  }

  /** Its own, and what is worse below: `✓ healthy, ✗ degraded below`. */
  #verdictParts(row: Row, name: string): string[] {
    const { paint } = this.#layout
    const word = verdictOf(row)
    const { w = '' } = row
    if (!isWell(w) && severityOf(w) > severityOf(word)) {
      const own = paint.verdict(word)
      return [`${word === '' ? `${own} ` : `${own}, `}${paint.verdict(w)} below`, name]
    }
    return isWell(word) ? [`${paint.shape(word)} ${name}`] : [paint.verdict(word), name]
  }

  #rowText(row: Row, namespace: string, isExplained: boolean): string {
    const { paint, now } = this.#layout
    const place = row.ns && row.ns !== namespace ? `${row.ns}/` : ''
    const closed = row.c && !this.#model.pages.has(row.u) ? printable(`${row.c} below`) : ''
    const name = printable(`${place}${kindText(row.k)}/${row.n}`)
    const since = row.z ? sinceText(row.z, now) : ''
    const parts = [
      ...this.#verdictParts(row, name),
      ...(row.f ?? []).map(printable),
      closed,
      since || paint.faint(ageText(row.t, now)),
      row.z || isExplained ? '' : whyOf(row),
    ]
    return parts.filter(Boolean).join('  ')
  }
}

const severityOf = (word: ArgoWord) => kasWords.indexOf(word)

function moreText({ pages }: ShownView, node: string): string[] {
  const more = pages.get(node)?.more ?? 0
  return more > 0 ? [`… ${more} more`] : []
}

/** A bundle of such objects, too. */
function isQuiet(row: Row): boolean {
  const { h, c, w } = row
  return !h?.[0] && !h?.[2] && !w && (!c || isBundle(row))
}

/** There is one in each namespace, or for each change: it says nothing, as long as it is well. */
function isUsual(row: Row): boolean {
  const { k, n, w, z, f = [], c = 0 } = row
  if (z || !isWell(verdictOf(row)) || !isWell(w ?? '')) return false
  if (k === 'ConfigMap') return n === 'kube-root-ca.crt'
  if (k === 'ServiceAccount') return n === 'default' && c === 0
  if (k === 'apps/ReplicaSet') return f.includes('0/0 ready') && c === 0
  return k === 'apps/ControllerRevision' || (k === 'discovery.k8s.io/EndpointSlice' && !isBundle(row))
}

function foldedText(rows: readonly Row[]): string {
  const counts = new Map<string, number>()
  for (const row of rows) counts.set(row.k, (counts.get(row.k) ?? 0) + (isBundle(row) ? (row.c ?? 1) : 1))
  const kinds = [...counts].sort(([, one], [, other]) => other - one)
  const named = kinds.slice(0, maxNamedKinds).map(([kind, count]) => `${count} ${kindText(kind)}`)
  const others = kinds.length > maxNamedKinds ? `, and ${kinds.length - maxNamedKinds} kinds more` : ''
  return `· folded (-v): ${named.join(', ')}${others}`
}

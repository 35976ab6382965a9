import { Counter } from '../../../../lib/counter.ts'
import { printable } from '../../../../lib/printable.ts'
import { type ArgoWord, type Cause, kasWords, notReconciled, type Row } from '../../../../proto/views-json.ts'
import { ageText } from '../../../command/age-text.ts'
import { causeKey, causeLines, culpritKey, culpritText } from './cause-text.ts'
import { fits } from './lines.ts'
import { linkLines } from './link-text.ts'
import { isBundle, isInBundle, type ShownView, verdictOf } from './shown-view.ts'
import { isWell, isWholeWell, kindText, type Layout, reasonOf, rowText, sinceText } from './verdict-text.ts'

/** Levels that are drawn; deeper rows are counted. */
const maxDepth = 16
/**
 * Time within which two begins are shown as one, in ms. A Pod becomes unready a moment after its ReplicaSet is made,
 * and Pods fail one after the other.
 */
const oneSinceMs = 30_000
/** Kinds that the line about folded objects names. */
const maxNamedKinds = 8

interface Place {
  /** text before the branch */
  readonly prefix: string
  readonly depth: number
  /** namespace of the row above */
  readonly namespace: string
  /** the unhealthy row above that shows its cause */
  readonly explained: Row | undefined
}

export interface TreeOptions {
  /** true: roots without verdict and children, such as roles, are counted on one line */
  readonly folds?: boolean
  /** true if the command line names the row: its links are shown below it */
  readonly isAsked?: (row: Row) => boolean
  /** the only requested namespace: rows do not name it */
  readonly namespace?: string
  /** rows before the roots */
  readonly above?: readonly Row[]
}

/**
 * Returns the tree as lines: shape, kind/name, facts, age, reason. The cause of an unhealthy root is shown below it. If
 * several roots have the same cause, the first one shows it.
 *
 * ```
 * ✗ degraded  Deployment/web  1 of 3 available: reduced  since 14:02 (4m)
 *     2 Pods, e.g. web-6d4b9-x7k2p: OOMKilled: container app: exit code 137, 4 restarts in all
 *     next: kubectl -n shop logs web-6d4b9-x7k2p -c app --previous
 * └─ ◐ progressing  ReplicaSet/web-6d4b9  1/3 ready  5d
 * ```
 */
export function treeText(model: ShownView, layout: Layout, options: TreeOptions = {}): string {
  return new TreeText(model, layout, options).text
}

class TreeText {
  readonly #model: ShownView
  readonly #layout: Layout
  readonly #options: TreeOptions
  readonly #lines: string[] = []
  /** ids of drawn rows: an agent may send anything, also circles */
  readonly #drawn = new Set<string>()
  /** rows that show a cause, by its key */
  readonly #rowsByCause = new Map<string, Row>()
  readonly #folded: Row[] = []

  constructor(model: ShownView, layout: Layout, options: TreeOptions) {
    this.#model = model
    this.#layout = layout
    this.#options = options
    this.#walk('', { prefix: '', depth: 0, namespace: this.#namespace, explained: undefined })
  }

  get text(): string {
    return this.#lines.map((line) => `${line}\n`).join('')
  }

  get #namespace(): string {
    return this.#options.namespace ?? ''
  }

  #walk(node: string, { prefix, depth, namespace, explained }: Place): void {
    const { above = [] } = this.#options
    const all = [...(depth === 0 ? above : []), ...this.#model.children(node)].filter(({ u }) => !this.#drawn.has(u))
    for (const { u } of all) this.#drawn.add(u)
    const unfolded = all.filter((row) => !this.#isFolded(row, depth))
    const { rows, texts } = this.#layout.isVerbose ? { rows: unfolded, texts: [] } : foldedEnds(unfolded)
    const folded = all.filter((row) => this.#isFolded(row, depth))
    const areOfBundle = node.startsWith('b:')
    if (!areOfBundle) this.#folded.push(...folded)
    const more = moreText(this.#model, node, areOfBundle ? folded.length : 0)
    rows.forEach((row, index) => {
      const isLast = index === rows.length - 1 && more === '' && texts.length === 0
      const [branch, below] = depth === 0 ? ['', ''] : isLast ? ['└─ ', '   '] : ['├─ ', '│  ']
      const indent = `${prefix}${below}    `
      const explains = row.z !== undefined && !explained && !this.#isOpenGroup(row)
      const { line, since } = this.#rowLine(row, `${prefix}${branch}`, namespace, explained)
      this.#lines.push(line)
      if (explains) this.#lines.push(...this.#causeLines(row, indent, since))
      if (this.#options.isAsked?.(row)) this.#lines.push(...linkLines(row, this.#layout, indent))
      const place = { prefix: prefix + below, depth: depth + 1, namespace: row.ns ?? this.#namespace }
      if (depth < maxDepth) this.#walk(row.u, { ...place, explained: explains ? row : explained })
    })
    const rest = [...texts, depth === 0 ? foldedText(this.#folded) : '', more].filter(Boolean)
    for (const line of rest) this.#lines.push(`${prefix}${depth === 0 ? '' : '└─ '}${this.#layout.paint.faint(line)}`)
  }

  /** True for a group whose members show their own causes. */
  #isOpenGroup({ u }: Row): boolean {
    return u.startsWith('g:') && this.#model.pages.has(u)
  }

  #isFolded(row: Row, depth: number): boolean {
    if (isInBundle(row) && isWholeWell(row)) return true
    if (this.#layout.isVerbose) return false
    return isUsual(row) || (this.#options.folds === true && depth === 0 && isWithoutVerdict(row))
  }

  /**
   * Returns the cause below a row. Rows above name the culprit, and the culprit shows its own cause, too.
   *
   * @param since - begin of the cause, if the row's line has no room for it
   */
  #causeLines(row: Row, indent: string, since: string): string[] {
    const { z } = row
    if (!z) return []
    const first = this.#rowsByCause.get(causeKey(z))
    if (!first) this.#rowsByCause.set(causeKey(z), row)
    const others = z.others ? otherCauses(this.#model, row) : []
    const isCulprit = culpritText(row) === ''
    const isOnce = !isCulprit || z.reason === notReconciled
    const same = first?.z && isOnce && { name: rowText(first, row.ns ?? this.#namespace), cause: first.z }
    return causeLines(row, this.#layout, indent, { since, others, ...(same ? { same } : {}) })
  }

  /** Returns the row's verdict, and a worse one below it: `✓ healthy, ✗ degraded below`. */
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

  /**
   * Returns the line of a row. If it does not fit the terminal, the begin of the cause follows the first fact. Then the
   * parts that the row above shows are left out.
   *
   * @returns `since`: the begin, if it does not fit
   */
  #rowLine(row: Row, prefix: string, namespace: string, explained: Row | undefined): { line: string; since: string } {
    const { paint, now, columns } = this.#layout
    const { z } = row
    const closed = row.c && row.n !== '' && !this.#model.pages.has(row.u) ? printable(`${row.c} below`) : ''
    const own = this.#verdictParts(row, rowText(row, namespace))
    const facts = (row.f ?? []).map(printable)
    const [first = '', ...rest] = facts
    const since = z ? sinceText(z, now) : ''
    const lineOf = (...parts: readonly string[]) => `${prefix}${parts.filter(Boolean).join('  ')}`
    const reason = z || explained ? '' : reasonOf(row)
    const whole = lineOf(...own, ...facts, closed, since || paint.faint(ageText(row.t, now)), reason)
    if (since === '' || fits(whole, columns)) return { line: whole, since: '' }
    if (isSameSince(explained?.z, z)) return { line: lineOf(...own, ...facts, closed), since: '' }
    if (explained || fits(lineOf(...own, first, since), columns))
      return { line: lineOf(...own, first, since, ...rest, closed), since: '' }
    return { line: lineOf(...own, ...facts, closed), since }
  }
}

const severityOf = (word: ArgoWord) => kasWords.indexOf(word)

/** True if two causes begin so close together that they are shown as one. */
function isSameSince(one: Cause | undefined, other: Cause | undefined): boolean {
  if (one?.since === undefined || other?.since === undefined) return false
  return one.atLeast === other.atLeast && Math.abs(one.since - other.since) < oneSinceMs
}

/** Returns causes that rows below a row show, without its own. */
function otherCauses(model: ShownView, { u, k, n, z }: Row): readonly Cause[] {
  const causes = new Map<string, Cause>()
  const isNamespace = k === 'Namespace'
  // objects in a namespace are not below its row
  const nodes = new Set(isNamespace ? [u, ''] : [u])
  for (const node of nodes) {
    for (const row of model.children(node)) {
      if (row.z && (!isNamespace || row.z.namespace === n)) causes.set(culpritKey(row.z), row.z)
      nodes.add(row.u)
    }
  }
  if (z) causes.delete(culpritKey(z))
  return [...causes.values()]
}

/** @param unshown - rows of the page that are not shown */
function moreText({ pages }: ShownView, node: string, unshown: number): string {
  const more = (pages.get(node)?.more ?? 0) + unshown
  return more > 0 ? `… ${more} more` : ''
}

/** True for a row without verdict and children, or a bundle of such objects. */
function isWithoutVerdict(row: Row): boolean {
  const { h, c, w } = row
  return !h?.[0] && !h?.[2] && !w && (!c || isBundle(row))
}

/** True for objects that exist in each namespace, or for each change: they are of no interest while healthy. */
function isUsual(row: Row): boolean {
  const { k, n, w, z, f = [], c = 0 } = row
  if (z || !isWell(verdictOf(row)) || !isWell(w ?? '')) return false
  if (k === 'ConfigMap') return n === 'kube-root-ca.crt'
  if (k === 'ServiceAccount') return n === 'default' && c === 0
  if (k === 'apps/ReplicaSet') return f.includes('0/0 ready') && c === 0
  return k === 'apps/ControllerRevision' || (k === 'discovery.k8s.io/EndpointSlice' && !isBundle(row))
}

/** Reasons with which Pods have failed for good. The Pods stay until somebody deletes them; a loop leaves hundreds. */
const finalReason =
  /^(?:Evicted|OutOf[a-z-]{1,40}|UnexpectedAdmissionError|NodeAffinity|NodePorts|NodeShutdown|Shutdown|Terminated|Preempting|TopologyAffinityError)$/
/** Pods of one such reason that are shown. */
const maxAlike = 2

/** Returns the first siblings of each final reason, and texts with the number of the others. */
function foldedEnds(all: readonly Row[]): { readonly rows: readonly Row[]; readonly texts: readonly string[] } {
  const counts = new Map<string, number>()
  const rows = all.filter(({ k, f = [] }) => {
    const [reason = ''] = f
    if (k !== 'Pod' || !finalReason.test(reason)) return true
    counts.set(reason, (counts.get(reason) ?? 0) + 1)
    return (counts.get(reason) ?? 0) <= maxAlike
  })
  const more = [...counts].filter(([, count]) => count > maxAlike)
  return { rows, texts: more.map(([reason, count]) => printable(`… ${count - maxAlike} more Pods ${reason} (-v)`)) }
}

/** @returns empty: nothing is folded */
function foldedText(rows: readonly Row[]): string {
  if (rows.length === 0) return ''
  const counts = new Counter<string>()
  for (const row of rows) counts.add(row.k, isBundle(row) ? (row.c ?? 1) : 1)
  const kinds = [...counts.counts].sort(([, one], [, other]) => other - one)
  const named = kinds.slice(0, maxNamedKinds).map(([kind, count]) => `${count} ${kindText(kind)}`)
  const others = kinds.length > maxNamedKinds ? `, and ${kinds.length - maxNamedKinds} kinds more` : ''
  return printable(`· folded (-v): ${named.join(', ')}${others}`)
}

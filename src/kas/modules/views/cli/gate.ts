import { builtInKind, namesKey } from '../../../../kubernetes/kind-words.ts'
import { type ArgoWord, kasWords, type Row, type ViewState } from '../../../../proto/views-json.ts'
import { isOfAside } from './aside-kinds.ts'
import type { GateOptions } from './gate-options.ts'
import type { Target } from './manifests.ts'
import { isBundle, isGroup, isOpened, isPlaceholder, type ShownView, verdictOf } from './shown-view.ts'
import { degraded, progressing, unknown } from './stable-code.ts'
import { findTargets } from './targets.ts'

/**
 * What a shell gets. Suspended is as somebody wanted it. Where nothing has a verdict nothing is known: each namespace
 * has a ConfigMap and a ServiceAccount before anything is deployed there.
 */
const exitCodes: Readonly<Record<ArgoWord, number>> = {
  '': unknown,
  Healthy: 0,
  Suspended: 0,
  Progressing: progressing,
  Missing: degraded,
  Degraded: degraded,
  Unknown: unknown,
}

/** Somebody else gives them, or nobody does. */
const addressReasons: ReadonlySet<string> = new Set(['LoadBalancerPending', 'AddressPending'])

export interface Judged {
  readonly row: Row
  /** what it counts as */
  readonly word: ArgoWord
  /** for what stands below it: by itself it fares better */
  readonly isBelow: boolean
}

export interface Judgement {
  readonly code: number
  /** of all that is judged, the worst; undefined: there is nothing */
  readonly word: ArgoWord | undefined
  readonly counts: Readonly<Partial<Record<ArgoWord, number>>>
  readonly judged: readonly Judged[]
  /** that are not there, or not in the generation that is asked for */
  readonly absent: readonly Target[]
  /** of kinds that are not followed: nothing can be said of them */
  readonly notFollowed: readonly Target[]
  /** kinds that cannot be listed now: of what is judged, or of what explains it */
  readonly aside: NonNullable<ViewState['aside']>
  /** of containers, as rows say */
  readonly restarts: number
}

/** What the whole is worth now: the worst of its roots, or of the objects that are named. */
export function judge(
  model: ShownView,
  options: Pick<GateOptions, 'targets' | 'ignored' | 'wantsAddresses'>,
): Judgement {
  const { targets } = options
  const rows = rootsOf(model)
  const found = targets && findTargets(model, targets, rows)
  const chosen = found ? rows.filter((row) => found.rows.has(row)) : rows
  const missing = found?.missing ?? []
  const notFollowed = missing.filter((target) => isNotFollowed(model, target))
  const absent = missing.filter((target) => !notFollowed.includes(target))
  const judged = chosen
    .filter((row) => !options.ignored.some((one) => isIgnored(one, row)))
    .map((row) => judgedOf(row, options))
  const counts = countsOf(model, judged)
  const aside = asideOf(model, judged, absent)
  const word = kasWords.findLast((one) => (counts[one] ?? 0) > 0)
  return {
    code: aside.length > 0 ? unknown : codeOf(model, { word, absent, isWhole: targets === undefined }),
    word,
    aside,
    counts,
    judged,
    absent,
    notFollowed,
    restarts: judged.reduce((sum, { row }) => sum + restartsOf(row), 0),
  }
}

interface Found {
  readonly word: ArgoWord | undefined
  readonly absent: readonly Target[]
  /** nothing is named */
  readonly isWhole: boolean
}

/** What is not live now is unknown. */
function codeOf(model: ShownView, { word, absent, isWhole }: Found): number {
  if (model.state.is !== 'live') return unknown
  const code = word === undefined ? undefined : exitCodes[word]
  if (code === degraded) return degraded
  if (absent.length > 0) return unknown
  // what is named and has no verdict, such as a role, is there: that is all that there is to it
  if (!isWhole && word === '') return 0
  return code ?? unknown
}

/** What stands in a group, or below an owner that is not shown, is a root of its own: these have no more to say. */
function rootsOf(model: ShownView): readonly Row[] {
  const open = (row: Row) => isOpened(row) && model.pages.has(row.u)
  return model.children('').flatMap((row) => (open(row) ? model.children(row.u) : [row]))
}

/** What has no row of its own, past the first of a page or in one row with others, is among them as the agent counts it. */
function countsOf(model: ShownView, judged: readonly Judged[]) {
  const counts: Partial<Record<ArgoWord, number>> = {}
  const add = (word: ArgoWord, by: number) => {
    const sum = (counts[word] ?? 0) + by
    if (sum > 0) counts[word] = sum
    else delete counts[word]
  }
  const groups = model.children('').filter((row) => isOpened(row) && model.pages.has(row.u))
  for (const node of ['', ...groups.map(({ u }) => u)]) {
    const counted = node === '' ? model.counts : (model.pages.get(node)?.counts ?? {})
    const rows = model.children(node).filter((row) => !isBundle(row))
    // the agent may count by other verdicts than rows are judged by
    if (Object.values(counted).reduce((sum, count) => sum + count, 0) <= rows.length) continue
    const rest = { ...counted }
    for (const row of rows) rest[verdictOf(row)] = (rest[verdictOf(row)] ?? 0) - 1
    for (const word of kasWords) add(word, Math.max(0, rest[word] ?? 0))
  }
  for (const { word } of judged) add(word, 1)
  return counts
}

const severityOf = (word: ArgoWord) => kasWords.indexOf(word)

/** Kinds of Kubernetes' own groups, as agentk takes them to be, also those that a cluster adds: GatewayClass. */
const ofKubernetes = /^(?:[^/]+|(?:[a-z]+|[a-z.]+\.k8s\.io)\/[^/]+)$/

/**
 * To Kubernetes' own kinds that are in no namespace, such as a Node, anyone may hang what he has: it makes them no worse.
 * Of the whole it is judged beside them, as if it were a root. So is what is below an owner that is not shown.
 */
function wordWithBelow(row: Row): ArgoWord {
  const { k, ns = '', w = '' } = row
  const word = verdictOf(row)
  // a bundle names no namespace, whatever its kind is
  const isOfNone = isBundle(row) ? builtInKind(k)?.isNamespaced === false : ns === '' && ofKubernetes.test(k)
  const isHung = isPlaceholder(row) || (isOfNone && !isGroup(row))
  return isHung && severityOf(w) > severityOf(word) ? w : word
}

function judgedOf(row: Row, { wantsAddresses, targets }: Pick<GateOptions, 'wantsAddresses' | 'targets'>): Judged {
  const word = targets ? verdictOf(row) : wordWithBelow(row)
  const isAddress = row.z !== undefined && addressReasons.has(row.z.reason)
  if (word === 'Progressing' && isAddress && !wantsAddresses) return { row, word: 'Healthy', isBelow: false }
  return { row, word, isBelow: word !== verdictOf(row) }
}

/**
 * Namespaces of an environment that nobody has named: who may write to one of them may have labelled his own so, to end
 * the gate, or to be let through in the place of what bears no labels. None: there is one at most.
 */
export function unnamedNamespaces(
  model: ShownView,
  { asked, areNamespacesKnown }: Pick<GateOptions, 'asked' | 'areNamespacesKnown'>,
): readonly string[] {
  if (asked.query.scope?.environment === undefined || areNamespacesKnown) return []
  const roots = rootsOf(model)
  const namespaces = new Set(roots.flatMap(({ ns = '' }) => (ns === '' ? [] : ns)))
  // who labels many has them stand in one row, or on a page that is not asked for
  const isMore = roots.some(isBundle) || [...model.pages.values()].some(({ more }) => more > 0)
  if (namespaces.size <= 1 && !isMore) return []
  return [...[...namespaces].sort(), ...(isMore ? ['more than is shown'] : [])]
}

function isNotFollowed({ state }: ShownView, { kind }: Target): boolean {
  const { notFollowed = [], aside = [] } = state
  return notFollowed.some((key) => namesKey(kind, key) && !aside.some(([one]) => one === key))
}

/** Rows of such kinds may be old, and an object that is named and is not found may be there. */
function asideOf({ state }: ShownView, judged: readonly Judged[], absent: readonly Target[]) {
  const { aside = [] } = state
  return aside.filter((one) => {
    const only = { ...state, aside: [one] }
    return judged.some(({ row }) => isOfAside(row, only)) || absent.some(({ kind }) => namesKey(kind, one[0]))
  })
}

function isIgnored(ignored: string, row: Row): boolean {
  if (ignored === row.z?.reason) return true
  const slash = ignored.lastIndexOf('/')
  const isName = slash > 0 && ignored.slice(slash + 1) === row.n && namesKey(ignored.slice(0, slash), row.k)
  return isName || namesKey(ignored, row.k)
}

function restartsOf({ f = [] }: Row): number {
  const [, count = '0'] = f.map((fact) => /^(\d{1,9}) restarts?$/.exec(fact)).find(Boolean) ?? []
  return Number(count)
}

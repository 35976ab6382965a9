import { builtInKind, namesKey } from '../../../../kubernetes/kind-words.ts'
import { type ArgoWord, kasWords, type Row, type ViewState } from '../../../../proto/views-json.ts'
import { isOfAside } from './aside-kinds.ts'
import type { GateOptions } from './gate-options.ts'
import type { Target } from './manifests.ts'
import { isBundle, isGroup, isOpened, isPlaceholder, type ShownView, verdictOf } from './shown-view.ts'
import { degraded, progressing, unknown } from './stable-code.ts'
import { findTargets } from './targets.ts'

/**
 * Exit codes by verdict. Suspended objects are as somebody wanted them. Without any verdict the state is unknown: each
 * namespace has a ConfigMap and a ServiceAccount before anything is deployed there.
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

/** Reasons of a missing address, which others assign, or nobody. */
const addressReasons: ReadonlySet<string> = new Set(['LoadBalancerPending', 'AddressPending'])

export interface Judged {
  readonly row: Row
  /** verdict that counts */
  readonly word: ArgoWord
  /** true if the verdict is that of objects below the row, which is worse than its own */
  readonly isBelow: boolean
}

export interface Judgement {
  readonly code: number
  /** the worst verdict of all judged rows; undefined: there are none */
  readonly word: ArgoWord | undefined
  readonly counts: Readonly<Partial<Record<ArgoWord, number>>>
  readonly judged: readonly Judged[]
  /** targets that do not exist, or not in the requested generation */
  readonly absent: readonly Target[]
  /** targets of kinds that the agent does not follow: their state is unknown */
  readonly notFollowed: readonly Target[]
  /** kinds that cannot be listed now, of judged rows or of their causes */
  readonly aside: NonNullable<ViewState['aside']>
  /** restarts of containers, from the rows */
  readonly restarts: number
}

/** Judges a view: the worst verdict of its roots, or of the targets. */
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
  /** true: the command line names no objects */
  readonly isWhole: boolean
}

/** Returns the exit code; a view that is not live is unknown. */
function codeOf(model: ShownView, { word, absent, isWhole }: Found): number {
  if (model.state.is !== 'live') return unknown
  const code = word === undefined ? undefined : exitCodes[word]
  if (code === degraded) return degraded
  if (absent.length > 0) return unknown
  // a named object without verdict, such as a role, exists: nothing else can be known of it
  if (!isWhole && word === '') return 0
  return code ?? unknown
}

/**
 * Returns the roots. Objects in a group, or below an owner that is not shown, are roots themselves, and the row above
 * them is none.
 */
function rootsOf(model: ShownView): readonly Row[] {
  const open = (row: Row) => isOpened(row) && model.pages.has(row.u)
  return model.children('').flatMap((row) => (open(row) ? model.children(row.u) : [row]))
}

/**
 * Counts verdicts. Objects without a row of their own, beyond the page or in a bundle, have the verdicts of the agent's
 * counts.
 */
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
    // the agent's verdicts for its counts may differ from those of the rows
    if (Object.values(counted).reduce((sum, count) => sum + count, 0) <= rows.length) continue
    const rest = { ...counted }
    for (const row of rows) rest[verdictOf(row)] = (rest[verdictOf(row)] ?? 0) - 1
    for (const word of kasWords) add(word, Math.max(0, rest[word] ?? 0))
  }
  for (const { word } of judged) add(word, 1)
  return counts
}

const severityOf = (word: ArgoWord) => kasWords.indexOf(word)

/** Kinds of Kubernetes' own groups, as agentk defines them, also if a cluster adds them: GatewayClass. */
const ofKubernetes = /^(?:[^/]+|(?:[a-z]+|[a-z.]+\.k8s\.io)\/[^/]+)$/

/**
 * Returns the row's verdict, or a worse one below it. Anyone can name a cluster-scoped object such as a Node as owner,
 * so objects below it do not change its own verdict. In a judgement of the whole they count beside it, as if they were
 * roots. Objects below an owner that is not shown count, too.
 */
function wordWithBelow(row: Row): ArgoWord {
  const { k, ns = '', w = '' } = row
  const word = verdictOf(row)
  // a bundle names no namespace, whatever its kind
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
 * Returns namespaces of an environment if there are several and the command line names none. Anyone who can write to a
 * namespace can label objects in it so: to fail the gate, or to pass it instead of unlabelled ones. None: there is at
 * most one.
 */
export function unnamedNamespaces(
  model: ShownView,
  { asked, areNamespacesKnown }: Pick<GateOptions, 'asked' | 'areNamespacesKnown'>,
): readonly string[] {
  if (asked.query.scope?.environment === undefined || areNamespacesKnown) return []
  const roots = rootsOf(model)
  const namespaces = new Set(roots.flatMap(({ ns = '' }) => (ns === '' ? [] : ns)))
  // many labelled objects share one row, or are on a page that is not requested
  const isMore = roots.some(isBundle) || [...model.pages.values()].some(({ more }) => more > 0)
  if (namespaces.size <= 1 && !isMore) return []
  return [...[...namespaces].sort(), ...(isMore ? ['more than is shown'] : [])]
}

function isNotFollowed({ state }: ShownView, { kind }: Target): boolean {
  const { notFollowed = [], aside = [] } = state
  return notFollowed.some((key) => namesKey(kind, key) && !aside.some(([one]) => one === key))
}

/** Returns kinds aside that matter: their rows may be old, and a target that was not found may exist. */
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

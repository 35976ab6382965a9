import { type KubernetesObject, kindOf, nameOf, namespaceOf, uidOf } from '../../../../kubernetes/object.ts'
import type { ArgoStatus } from '../../argo/health.ts'
import { type Finding, severityOf } from '../finding.ts'
import { isRefusal } from '../refused.ts'

/** A cause of a failure, as far as it was traced. */
export interface Candidate {
  readonly culprit: KubernetesObject
  /** finding on the culprit */
  readonly finding: Finding
  /** object that fails by it: the culprit itself, or one that it explains */
  readonly failing: KubernetesObject
  /** verdict on the object that fails */
  readonly word: ArgoStatus
  /** ms since 1970 */
  readonly since: number | undefined
  readonly count: number
  /** depth below the root, including steps of explanation */
  readonly depth: number
  /** the object that fails only sums up others */
  readonly isSummary: boolean
  /** objects above the one that fails, up to the root */
  readonly above: readonly KubernetesObject[]
  /** further causes of the same failure, by their keys */
  readonly others: ReadonlySet<string>
}

/** Cause of a root that is not well. */
export interface Cause {
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly id: string
  readonly word: ArgoStatus
  readonly reason: string
  readonly text: string
  readonly about: string
  /** objects that were read for it besides the culprit */
  readonly needs: Finding['needs']
  /** ms since 1970; undefined: not known */
  readonly since: number | undefined
  /** first sight of those candidates that have no known begin. ms since 1970 */
  readonly seen: number | undefined
  readonly last: number | undefined
  /** number of objects that fail by it */
  readonly count: number
  /** number of further causes */
  readonly others: number
}

/** Candidates of one cause. */
interface Group {
  first: Candidate
  word: ArgoStatus
  since: number | undefined
  seen: number | undefined
  last: number | undefined
  depth: number
  /** failures of the culprit itself, and of objects that it explains */
  own: number
  explained: number
  readonly all: Candidate[]
}

const failing = severityOf('Progressing')

/** @returns the cause to show; undefined: there is no candidate. The order of candidates does not matter. */
export function choose(candidates: readonly Candidate[]): Cause | undefined {
  return chooseOf(candidates)?.cause
}

/** @returns also the further causes, by their keys */
export function chooseOf(
  candidates: readonly Candidate[],
): { readonly cause: Cause; readonly others: ReadonlySet<string> } | undefined {
  const isBare = candidates.some(({ word, isSummary }) => !isSummary && severityOf(word) >= failing)
  const groups = new Map<string, Group>()
  for (const one of candidates) {
    if (isBare && one.isSummary) continue
    const key = keyOf(one)
    const group = groups.get(key)
    if (group) join(group, one)
    else groups.set(key, begin(one))
  }
  let chosen: Group | undefined
  for (const group of groups.values()) if (!chosen || compare(group, chosen) < 0) chosen = group
  if (!chosen) return undefined
  const others = new Set(chosen.all.flatMap((one) => [...one.others]))
  const above = new Set(chosen.all.flatMap((one) => one.above))
  for (const [key, group] of groups) {
    if (severityOf(group.word) >= failing && !group.first.isSummary && !isAbove(group, above)) others.add(key)
  }
  others.delete(keyOf(chosen.first))
  return { cause: causeOf(chosen, others.size), others }
}

/** True for objects above a culprit, which are no other cause: they only report that an object below is not well. */
function isAbove({ all }: Group, above: ReadonlySet<KubernetesObject>): boolean {
  return all.every(({ failing, finding }) => above.has(failing) && !isRefusal(finding.reason))
}

/** Returns the key of a cause: Pods with one reason are one cause, any other object is its own. */
function keyOf({ culprit, finding: { reason, about } }: Candidate): string {
  const kind = kindOf(culprit)
  const parts =
    kind === 'Pod' ? [kind, namespaceOf(culprit), reason, about] : [kind, namespaceOf(culprit), nameOf(culprit)]
  return parts.join('\n')
}

function begin(one: Candidate): Group {
  const { word, since, finding, depth } = one
  const { seen, last } = finding
  const group: Group = { first: one, word, since, seen, last, depth, own: 0, explained: 0, all: [] }
  count(group, one)
  return group
}

function join(group: Group, one: Candidate): void {
  if (stands(one, group.first)) group.first = one
  if (severityOf(one.word) > severityOf(group.word)) group.word = one.word
  group.since = least(group.since, one.since)
  group.seen = least(group.seen, one.finding.seen)
  group.last = most(group.last, one.finding.last)
  group.depth = Math.max(group.depth, one.depth)
  count(group, one)
}

function count(group: Group, one: Candidate): void {
  const { failing, culprit, count } = one
  group.all.push(one)
  if (failing === culprit) group.own += count
  else group.explained += count
}

const countOf = ({ own, explained }: Group) => explained || own

/** True if one candidate represents a group better than another: the earliest, then the first by name. */
function stands(one: Candidate, other: Candidate): boolean {
  const by =
    compareTimes(one.since, other.since) ||
    compareTexts(nameOf(one.culprit), nameOf(other.culprit)) ||
    compareTexts(one.finding.text, other.finding.text)
  return by < 0
}

function compare(one: Group, other: Group): number {
  return (
    severityOf(other.word) - severityOf(one.word) ||
    countOf(other) - countOf(one) ||
    one.first.finding.rank - other.first.finding.rank ||
    other.depth - one.depth ||
    compareTimes(one.since, other.since) ||
    compareTexts(placeOf(one.first.culprit), placeOf(other.first.culprit)) ||
    compareTexts(one.first.finding.reason, other.first.finding.reason) ||
    compareTexts(one.first.finding.about, other.first.finding.about)
  )
}

const placeOf = (object: KubernetesObject) => `${nameOf(object)}\n${namespaceOf(object)}\n${kindOf(object)}`

/** Orders times: the earlier comes first, unknown ones last. */
function compareTimes(one: number | undefined, other: number | undefined): number {
  if (one === other) return 0
  if (one === undefined) return 1
  return other === undefined ? -1 : one - other
}

const compareTexts = (one: string, other: string) => (one === other ? 0 : one < other ? -1 : 1)
const least = (one: number | undefined, other: number | undefined) =>
  one === undefined || other === undefined ? (one ?? other) : Math.min(one, other)
const most = (one: number | undefined, other: number | undefined) =>
  one === undefined || other === undefined ? (one ?? other) : Math.max(one, other)

function causeOf(group: Group, others: number): Cause {
  const { culprit, finding } = group.first
  return {
    kind: kindOf(culprit),
    namespace: namespaceOf(culprit),
    name: nameOf(culprit),
    id: uidOf(culprit),
    word: group.word,
    reason: finding.reason,
    text: finding.text,
    about: finding.about,
    needs: finding.needs,
    since: group.since,
    seen: group.seen,
    last: group.last,
    count: countOf(group),
    others,
  }
}

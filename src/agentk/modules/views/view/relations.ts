import type { LabelSelector } from '../projection/projector.ts'
import { compileSelector, type Selects } from '../projection/selectors.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import { compareTexts } from './order.ts'

/** bound of links of one object */
const maxLinks = 50

/** `id` is empty if the named object is hidden or absent: its name is in the object that names it. */
export type Link = readonly [relation: string, id: string, kind: string, namespace: string, name: string]

export interface LinkSources {
  readonly records: Pick<ReadonlyRecords, 'get' | 'named' | 'naming' | 'inNamespace'>
  readonly sees: (record: ObjectRecord) => boolean
  /** uids of objects that its selector selects, in order */
  readonly selected: readonly string[]
}

/** Relations as the named object shows them. */
const reversed: Readonly<Record<string, string>> = {
  asks: 'asked by',
  binds: 'bound by',
  'deployed by': 'deploys',
  deploys: 'deployed by',
  'deploys into': 'deployed into by',
  grants: 'granted by',
  'is served by': 'serves',
  mounts: 'mounted by',
  reads: 'read by',
  routes: 'routed by',
  'runs on': 'runs',
  scales: 'scaled by',
  uses: 'used by',
}

const selecting = ['Service', 'policy/PodDisruptionBudget']
const podKey = 'Pod'
/** References that take as long to read as one object. */
const referencesOfOne = 8

/**
 * Finds the links of an object: objects that it selects or names, and owners that are not its parent. In the other
 * direction: visible objects that name or select it.
 *
 * @returns the first in order, of each direction, and the number of objects that were read
 */
export function linksOf(record: ObjectRecord, around: LinkSources) {
  const links: Link[] = []
  const { selected, records } = around
  let read = record.references.length + record.otherOwners.length
  for (const uid of selected) {
    if (links.length >= maxLinks) break
    const one = records.get(uid)
    if (one && around.sees(one)) links.push(linkTo('selects', one))
    read++
  }
  links.push(...named(record, around))
  const own = links.sort(compareLinks).slice(0, maxLinks)
  const others: Link[] = []
  for (const one of candidates(record, around)) {
    read += 1 + Math.floor(one.references.length / referencesOfOne)
    if (one.uid === record.uid || !around.sees(one)) continue
    for (const relation of relationsTo(record, one)) others.push(linkTo(relation, one))
    if (others.length >= maxLinks) break
  }
  return { links: [...own, ...others.sort(compareLinks)].slice(0, maxLinks), read }
}

const linkTo = (relation: string, { uid, kind, namespace, name }: ObjectRecord): Link => [
  relation,
  uid,
  kind.key,
  namespace,
  name,
]

function* named(
  { namespace, references, otherOwners, node }: ObjectRecord,
  { records, sees }: LinkSources,
): Iterable<Link> {
  const of = (relation: string, place: readonly [kind: string, namespace: string, name: string]): Link => {
    const one = records.named(...place)
    return [relation, one && sees(one) ? one.uid : '', ...place]
  }
  if (node !== '') yield of('runs on', ['Node', '', node])
  for (const one of references) yield of(one.relation, [one.kind, one.namespace, one.name])
  for (const { uid, kind, name } of otherOwners) {
    const owner = records.get(uid)
    const isNear = owner?.namespace === '' || owner?.namespace === namespace
    const agrees = owner && isNear && owner.kind.key === kind && owner.name === name && sees(owner)
    yield agrees ? linkTo('owned by', owner) : ['owned by', '', kind, namespace, name]
  }
}

/** Yields objects that may name, run on or select it. */
function* candidates({ kind, namespace, name }: ObjectRecord, { records }: LinkSources): Iterable<ObjectRecord> {
  if (kind.key === podKey) for (const other of selecting) yield* records.inNamespace(other, namespace)
  yield* records.naming(kind.key, namespace, name)
}

function* relationsTo({ kind, namespace, name, labels }: ObjectRecord, by: ObjectRecord): Iterable<string> {
  const maySelect = kind.key === podKey && by.namespace === namespace && selecting.includes(by.kind.key)
  if (maySelect && by.selector && selects(by.selector)(labels)) yield 'selected by'
  if (kind.key === 'Node' && by.node === name) yield 'runs'
  for (const { relation, ...place } of by.references) {
    const isIt = place.kind === kind.key && place.namespace === namespace && place.name === name
    if (isIt) yield reversed[relation] ?? relation
  }
}

const compiled = new WeakMap<LabelSelector, Selects>()

function selects(selector: LabelSelector): Selects {
  let found = compiled.get(selector)
  if (!found) {
    found = compileSelector(selector)
    compiled.set(selector, found)
  }
  return found
}

function compareLinks([relation, id, kind, , name]: Link, other: Link): number {
  const [otherRelation, otherId, otherKind, , otherName] = other
  return (
    compareTexts(relation, otherRelation) ||
    compareTexts(kind, otherKind) ||
    compareTexts(name, otherName) ||
    compareTexts(id, otherId)
  )
}

import type { LabelSelector, ObjectRecord, ReadonlyRecords } from './record.ts'

/** of one object */
const maxLinks = 50

export type Link = readonly [relation: string, id: string]

/** What an object is linked with, of what is seen: what it selects, what it names, and owners that are not its parent. */
export function linksOf(record: ObjectRecord, records: ReadonlyRecords, isSeen: (uid: string) => boolean): Link[] {
  const links: Link[] = []
  const add = (relation: string, other: ObjectRecord | undefined) => {
    if (other && isSeen(other.uid)) keepFirst(links, [relation, other.uid])
  }
  const { selector, namespace } = record
  if (selector) {
    for (const pod of records.inNamespace('Pod', namespace)) if (selects(selector, pod.labels)) add('selects', pod)
  }
  for (const { relation, kind, namespace, name } of record.references)
    add(relation, records.named(kind, namespace, name))
  for (const { uid, kind, name } of record.otherOwners) {
    const owner = records.get(uid)
    const isNear = owner?.namespace === '' || owner?.namespace === namespace
    if (isNear && owner?.kind.key === kind && owner?.name === name) add('owned by', owner)
  }
  return links
}

/** In order, without room for more than there are at most: a selector may hold for 50,000 Pods. */
function keepFirst(links: Link[], link: Link): void {
  const last = links.at(-1)
  if (links.length >= maxLinks && last && compareLinks(link, last) >= 0) return
  const at = links.findIndex((one) => compareLinks(link, one) < 0)
  links.splice(at < 0 ? links.length : at, 0, link)
  links.length = Math.min(links.length, maxLinks)
}

function compareLinks([relation, id]: Link, [otherRelation, otherId]: Link): number {
  if (relation !== otherRelation) return relation < otherRelation ? -1 : 1
  return id < otherId ? -1 : 1
}

export function hasLinks({ selector, references, otherOwners }: ObjectRecord): boolean {
  return selector !== undefined || references.length > 0 || otherOwners.length > 0
}

/** As Kubernetes has it: all that it says must hold, so an empty one selects all. */
export function selects({ labels, expressions }: LabelSelector, of: ObjectRecord['labels']): boolean {
  return (
    labels.every(([name, value]) => of.get(name) === value) && expressions.every((one) => holds(one, of.get(one.key)))
  )
}

function holds({ operator, values }: LabelSelector['expressions'][number], value: string | undefined): boolean {
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value)
    case 'NotIn':
      return value === undefined || !values.includes(value)
    case 'Exists':
      return value !== undefined
    case 'DoesNotExist':
      return value === undefined
    default:
      return false
  }
}

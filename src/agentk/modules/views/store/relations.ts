import type { ObjectRecord, ReadonlyRecords } from './record.ts'

/** of one object */
const maxLinks = 50

export type Link = readonly [relation: string, id: string]

export interface Around {
  readonly records: Pick<ReadonlyRecords, 'get' | 'named'>
  readonly isSeen: (uid: string) => boolean
  /** uids of what its selector selects, in order */
  readonly selected: readonly string[]
}

/**
 * What an object is linked with, of what is seen: what it selects, what it names, and owners that are not its parent.
 *
 * @returns the first in order, and how many objects were read for them
 */
export function linksOf(record: ObjectRecord, { records, isSeen, selected }: Around) {
  const links: Link[] = []
  const add = (relation: string, uid: string | undefined) => {
    if (uid !== undefined && isSeen(uid)) links.push([relation, uid])
  }
  const { namespace, references, otherOwners } = record
  let read = references.length + otherOwners.length
  for (const uid of selected) {
    if (links.length >= maxLinks) break
    add('selects', uid)
    read++
  }
  for (const { relation, kind, namespace, name } of references) add(relation, records.named(kind, namespace, name)?.uid)
  for (const { uid, kind, name } of otherOwners) {
    const owner = records.get(uid)
    const isNear = owner?.namespace === '' || owner?.namespace === namespace
    if (isNear && owner?.kind.key === kind && owner?.name === name) add('owned by', uid)
  }
  return { links: links.sort(compareLinks).slice(0, maxLinks), read }
}

export function hasLinks({ selector, references, otherOwners }: ObjectRecord): boolean {
  return selector !== undefined || references.length > 0 || otherOwners.length > 0
}

function compareLinks([relation, id]: Link, [otherRelation, otherId]: Link): number {
  if (relation !== otherRelation) return relation < otherRelation ? -1 : 1
  return id < otherId ? -1 : 1
}

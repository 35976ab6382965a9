import type { SortName } from '../../../../proto/views-json.ts'
import { isSummary } from '../../../health/kas/opinion.ts'
import type { Ranked } from '../tree/forest-node.ts'

export type Order = (one: Ranked, other: Ranked) => number

/** `place`: by name, kind and namespace alone, without regard to health */
export type PageOrder = SortName | 'place'

/** @param sort - undefined: the worst first; the same with `since`, which only objects that are not well have */
export function orderBy(sort: PageOrder | undefined): Order {
  if (sort === 'place') return comparePlaces
  if (sort === 'name') return compareNames
  return sort === 'age' ? compareAges : compareEntries
}

/** Copies the fields that are compared, since an entry changes itself. */
export function asItIs({ id, total, kind, name, namespace, record }: Ranked): Ranked {
  return { id, total, kind, name, namespace, record }
}

/** Orders the worst first, then workloads, then by kind and name. */
function compareEntries(one: Ranked, other: Ranked): number {
  return (
    other.total - one.total ||
    compareKinds(one.kind, other.kind) ||
    compareTexts(one.name, other.name) ||
    compareTexts(one.namespace, other.namespace) ||
    compareTexts(one.id, other.id)
  )
}

/** Orders what runs before what only leads to it: of two that are as bad, the former is most often the reason. */
function compareKinds(one: string, other: string): number {
  if (one === other) return 0
  return Number(isSummary(other)) - Number(isSummary(one)) || compareTexts(one, other)
}

/** Orders by name. Entries without one, such as many of a kind in one row, come last. */
const compareNames: Order = (one, other) => {
  if (one.name === other.name) return compareEntries(one, other)
  if (one.name === '' || other.name === '') return one.name === '' ? 1 : -1
  return one.name < other.name ? -1 : 1
}

const comparePlaces: Order = (one, other) =>
  compareTexts(one.name, other.name) ||
  compareTexts(one.kind, other.kind) ||
  compareTexts(one.namespace, other.namespace) ||
  compareTexts(one.id, other.id)

/** Orders the youngest first. Many of a kind in one row, and what is no object, come last. */
const compareAges: Order = (one, other) => {
  const [own, others] = [one.record?.created, other.record?.created]
  if (own === others) return compareEntries(one, other)
  if (own === undefined || others === undefined) return own === undefined ? 1 : -1
  return others - own
}

export const compareTexts = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0)

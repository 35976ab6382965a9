import type { SortName } from '../../../../proto/views-json.ts'
import { isSummary } from '../../../health/kas/opinion.ts'
import type { Ranked } from '../tree/forest-node.ts'

export type Order = (one: Ranked, other: Ranked) => number

/** `place`: by name, kind and namespace alone, however it fares */
export type PageOrder = SortName | 'place'

/** @param sort - undefined: the worst first; so with `since`, which only what is not well has */
export function orderBy(sort: PageOrder | undefined): Order {
  if (sort === 'place') return comparePlaces
  if (sort === 'name') return compareNames
  return sort === 'age' ? compareAges : compareEntries
}

/** What it is compared by, when it changes itself. */
export function asItIs({ id, total, kind, name, namespace, record }: Ranked): Ranked {
  return { id, total, kind, name, namespace, record }
}

/** The worst first, then workloads, then by kind and name. */
function compareEntries(one: Ranked, other: Ranked): number {
  return (
    other.total - one.total ||
    compareKinds(one.kind, other.kind) ||
    compareTexts(one.name, other.name) ||
    compareTexts(one.namespace, other.namespace) ||
    compareTexts(one.id, other.id)
  )
}

/** What runs before what only leads to it: of two that are as bad, most often it is why. */
function compareKinds(one: string, other: string): number {
  if (one === other) return 0
  return Number(isSummary(other)) - Number(isSummary(one)) || compareTexts(one, other)
}

/** Those without a name, as many of a kind in one row have none, last. */
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

/** The youngest first; many of a kind in one row, and what is no object, last. */
const compareAges: Order = (one, other) => {
  const [own, others] = [one.record?.created, other.record?.created]
  if (own === others) return compareEntries(one, other)
  if (own === undefined || others === undefined) return own === undefined ? 1 : -1
  return others - own
}

export const compareTexts = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0)

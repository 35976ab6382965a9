import type { InstanceId, Row } from './row.ts'

/** Of two living instances of one name, the one whose connection is the newest counts: the other is leaving, or wrong. */

/** One name of the table, with the instance that counts for it. */
export interface Named {
  readonly row: Row
  /** living instances of the name, this one included */
  readonly instances: number
}

/**
 * @param rows - in any order
 * @param rankOf - the larger, the newer its connection
 * @returns by name, sorted
 */
export function byName(rows: Iterable<Row>, rankOf: (instance: InstanceId) => number): ReadonlyMap<string, Named> {
  const names = new Map<string, Named>()
  for (const row of rows) {
    const other = names.get(row.head.name)
    const newer = !other || rankOf(row.instance) > rankOf(other.row.instance)
    names.set(row.head.name, { row: newer ? row : other.row, instances: (other?.instances ?? 0) + 1 })
  }
  return new Map([...names].sort(([a], [b]) => (a < b ? -1 : 1)))
}

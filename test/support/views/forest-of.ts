import type { ReadonlyRecords } from '../../../src/agentk/modules/views/store/record.ts'
import { TimeSlices } from '../../../src/agentk/modules/views/store/time-slices.ts'
import { Forest } from '../../../src/agentk/modules/views/tree/forest.ts'
import { readQuery } from '../../../src/agentk/modules/views/tree/query.ts'
import { VisibleRecords } from '../../../src/agentk/modules/views/tree/visible-records.ts'
import type { Clock } from '../../../src/lib/clock.ts'
import { ManualClock } from '../manual-clock.ts'

export interface ForestParts {
  readonly records: ReadonlyRecords
  /** JSON */
  readonly query: string
  /** keys of kinds that the caller may not list */
  readonly hidden?: readonly string[]
  readonly clock?: Clock
}

/** A forest alone, which follows the records. */
export function forestOf({ records, query, hidden = [], clock = new ManualClock() }: ForestParts): Forest {
  const visibility = {
    key: '',
    mayList: ({ key }: { key: string }) => !hidden.includes(key),
    mayListWithin: () => true,
    mayListEvents: () => true,
    mayName: () => true,
  }
  const visible = new VisibleRecords({ records, clock, turns: new TimeSlices(clock) }, visibility)
  const forest = new Forest({ records, visible, clock, side: 'argo' }, readQuery(Buffer.from(query)))
  forest.start()
  records.onChange((change) => {
    const moved = visible.moved(change)
    if (moved) forest.change(moved)
  })
  return forest
}

import type { Visibility } from '../../../src/agentk/modules/views/store/record.ts'

/** A caller who may list everything. */
export const seesAll: Visibility = {
  mayList: () => true,
  mayListWithin: () => true,
  mayListEvents: () => true,
  mayName: () => true,
  key: '*',
}

import t from 'tap'
import type { Finding } from '../../../../../../src/agentk/modules/gitops/finding.ts'
import { SourceInventory } from '../../../../../../src/agentk/modules/gitops/inventory/source-inventory.ts'
import type { LiveObject } from '../../../../../../src/agentk/modules/gitops/live/live-object.ts'
import type { InventoryEntry, RecordedDrift } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** Entries of a source after the results of a round. */

const key = { group: '', kind: 'ConfigMap', namespace: 'shop', name: 'a' }
const manifest = { key, version: 'v1', object: {}, digest: 'd', file: 'a.yaml', line: 1 }
const finding = { kind: 'drifted', since: 5, isDeleted: false, by: undefined } as Finding

/** Loads an inventory with one entry. */
async function load(drift?: RecordedDrift) {
  const reference = { uid: 'u', digest: 'd', fields: 'f', time: 't', generation: 0 }
  const entry: InventoryEntry = {
    key,
    version: 'v1',
    wave: 0,
    ...reference,
    state: 'applied',
    reason: '',
    ...(drift && { drift }),
  }
  const nothing = async () => undefined
  const inventory = await SourceInventory.load(
    {
      own: {
        load: async () => new Map([[keyText(key), entry]]),
        options: undefined,
        commit: '',
        adopted: [],
        save: nothing,
        saveOptions: nothing,
        remove: nothing,
      },
      of: () => undefined,
      lane: { json: async () => ({ status: 404, body: {} }) },
      clock: new ManualClock(0),
    },
    sourceOptions({}, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }),
    new AbortController().signal,
  )
  return { inventory, drift: () => inventory.entries.get(keyText(key))?.drift }
}

t.test('what is recorded of drift follows the newest finding', async (t) => {
  const { inventory, drift } = await load()
  const ends = (found: Finding) => inventory.applied(manifest, { kind: 'drifted', finding: found, live: undefined })
  ends({ ...finding, isDeleted: true })
  t.strictSame(drift(), { since: 5, isDeleted: true })
  ends({ ...finding, since: 9 })
  t.strictSame(drift(), { since: 9 }, 'somebody has made it again')
  ends({ ...finding, kind: 'notCompared' })
  t.strictSame(drift(), { since: 9 }, 'nothing is known: it stays')
  inventory.applied(manifest, { kind: 'unchanged', live: undefined })
  t.equal(drift(), undefined)
})

t.test('the count of corrections outlives findings, and ends with an apply of a new manifest', async (t) => {
  const { inventory, drift } = await load({ since: 0, by: 'controller', corrections: [1, 2] })
  inventory.applied(manifest, { kind: 'drifted', finding, live: undefined })
  t.strictSame(drift(), { since: 5, by: 'controller', corrections: [1, 2] })
  inventory.applied(manifest, { kind: 'unchanged', live: undefined })
  t.strictSame(drift(), { since: 0, by: 'controller', corrections: [1, 2] })
  const live = { uid: 'u', fields: 'f', fieldsTime: 't', generation: 1 } as LiveObject
  inventory.applied(manifest, { kind: 'applied', live })
  t.equal(drift(), undefined)
})

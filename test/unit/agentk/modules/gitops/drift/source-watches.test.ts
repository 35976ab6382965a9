import t, { type Test } from 'tap'
import type { CollectionReader } from '../../../../../../src/agentk/modules/gitops/drift/drift-watches.ts'
import { SourceWatches } from '../../../../../../src/agentk/modules/gitops/drift/source-watches.ts'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const resource = (kind: string, plural: string) => ({
  kind,
  plural,
  isNamespaced: true,
  verbs: ['get', 'list', 'watch', 'patch', 'delete'],
  hasStatus: false,
  names: { singular: '', short: [], categories: [] },
})
const resources = [resource('ConfigMap', 'configmaps'), resource('Secret', 'secrets')]
const kinds = new ClusterKinds([{ group: '', version: 'v1', isStale: false, resources }])
const entry = (kind: string, namespace: string): InventoryEntry => ({
  key: { group: '', kind, namespace, name: 'a' },
  version: 'v1',
  wave: 0,
  uid: 'u',
  digest: 'd',
  fields: '',
  state: 'applied',
  reason: '',
})

/** Starts the watches of a source. @param limit - number of watches that agentk may have */
function start(t: Test, limit: number, block: object = {}) {
  const ending = new AbortController()
  t.teardown(() => ending.abort())
  const readers = new Map<string, CollectionReader>()
  let changes = 0
  const watching = new SourceWatches(
    {
      watches: {
        follow: ({ path }, reader) => {
          if (readers.size >= limit) return undefined
          readers.set(path, reader)
          return () => readers.delete(path)
        },
      },
      client: undefined as never,
      lane: { json: async () => ({ status: 403, body: {} }) as never },
      seen: () => undefined,
      read: () => undefined,
      left: () => undefined,
      onUnwatched: () => changes++,
      clock: new ManualClock(),
      random: () => 0.5,
      log: capturedLog().log,
    },
    sourceOptions(block, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }),
    ending.signal,
  )
  const readerOf = (path: string) => readers.get(path) as CollectionReader
  return { watching, readerOf, changes: () => changes }
}

t.test('a kind that may not be watched is named, until it may', async (t) => {
  const { watching, readerOf, changes } = start(t, 10)
  watching.update([entry('ConfigMap', 'shop'), entry('Secret', 'shop')], kinds)
  t.strictSame([watching.unwatched, changes()], [[], 0])
  const secrets = readerOf('/api/v1/secrets')
  secrets.refused(403)
  secrets.refused(403)
  t.strictSame(watching.unwatched, ['Secret: the API server refuses to list or watch it (403)'])
  t.equal(changes(), 1)
  secrets.listing()
  secrets.listed()
  t.strictSame([watching.unwatched, changes()], [[], 2])
})

t.test('a kind beyond the limit of watches is named once, whatever the number of its namespaces', async (t) => {
  const { watching } = start(t, 1, { namespaces: ['a', 'b', 'c'] })
  watching.update(
    [entry('Secret', 'a'), entry('ConfigMap', 'a'), entry('ConfigMap', 'b'), entry('ConfigMap', 'c')],
    kinds,
  )
  t.strictSame(watching.unwatched, ['ConfigMap: agentk has as many watches as it may have'])
  watching.update([entry('Secret', 'a')], kinds)
  t.strictSame(watching.unwatched, [], 'it is not of the source any more')
})

import t, { type Test } from 'tap'
import type { CollectionReader } from '../../../../../../src/agentk/modules/gitops/drift/drift-watches.ts'
import { SourceWatches } from '../../../../../../src/agentk/modules/gitops/drift/source-watches.ts'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import type { ObjectKey } from '../../../../../../src/kubernetes/key.ts'
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
  const left: ObjectKey[] = []
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
      left: (key) => void left.push(key),
      onUnwatched: () => changes++,
      clock: new ManualClock(),
      random: () => 0.5,
      log: capturedLog().log,
    },
    sourceOptions(block, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }),
    ending.signal,
  )
  const readerOf = (path: string) => readers.get(path) as CollectionReader
  return { watching, readerOf, left, changes: () => changes }
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
  t.equal(changes(), 1, 'it may be listed, and not watched')
  secrets.following()
  t.strictSame([watching.unwatched, changes()], [[], 2])
})

t.test('a watch that goes on after the API server was away needs no list to count', async (t) => {
  const { watching, readerOf } = start(t, 10)
  watching.update([entry('Secret', 'shop')], kinds)
  const secrets = readerOf('/api/v1/secrets')
  for (const [status, text] of [
    [0, 'Secret: the API server does not answer'],
    [503, 'Secret: the API server cannot list or watch it now (503)'],
    [429, 'Secret: the API server cannot list or watch it now (429)'],
    [404, 'Secret: the API server refuses to list or watch it (404)'],
  ] as const) {
    secrets.refused(status)
    t.strictSame(watching.unwatched, [text])
    secrets.following()
    t.strictSame(watching.unwatched, [])
  }
})

t.test('an object whose kind nobody serves in its version is compared: that says so', async (t) => {
  const { watching, left } = start(t, 10)
  const lost = { ...entry('ConfigMap', 'shop'), version: 'v2' }
  watching.update([lost, entry('Secret', 'shop'), { ...lost, digest: '' }], kinds)
  t.strictSame(left, [lost.key], 'but for one that was never applied')
  t.strictSame(watching.unwatched, [])
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

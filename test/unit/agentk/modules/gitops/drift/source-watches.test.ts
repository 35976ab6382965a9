import t, { type Test } from 'tap'
import type { CollectionReader } from '../../../../../../src/agentk/modules/gitops/drift/drift-watches.ts'
import { SourceWatches } from '../../../../../../src/agentk/modules/gitops/drift/source-watches.ts'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import type { LiveObject } from '../../../../../../src/agentk/modules/gitops/live/live-object.ts'
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

const others = { manager: 'scaler', operation: 'Update', fieldsV1: { 'f:data': { 'f:size': {} } } }
const object = (namespace: string) => ({ metadata: { namespace, name: 'a', uid: 'u', managedFields: [others] } })

/** Starts the watches of a source. @param limit - number of watches that agentk may have */
function start(t: Test, limit: number, block: object = {}) {
  const ending = new AbortController()
  t.teardown(() => ending.abort())
  const clock = new ManualClock()
  const readers = new Map<string, CollectionReader>()
  const asked: string[] = []
  const lives: LiveObject[] = []
  const room = { limit }
  let changes = 0
  const watching = new SourceWatches(
    {
      watches: {
        follow: ({ path }, reader) => {
          if (readers.size >= room.limit) return undefined
          readers.set(path, reader)
          return () => readers.delete(path)
        },
      },
      client: undefined as never,
      lane: {
        json: async (_, path) => {
          asked.push(path.split('?')[0] as string)
          const [, namespace = 'shop'] = /namespaces\/([a-z]+)/.exec(path) ?? []
          return { status: 200, body: { metadata: { resourceVersion: '1' }, items: [object(namespace)] } }
        },
      },
      seen: () => undefined,
      read: (_, live) => lives.push(live),
      left: () => undefined,
      onUnwatched: () => changes++,
      clock,
      random: () => 0.5,
      log: capturedLog().log,
    },
    sourceOptions(block, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }),
    ending.signal,
  )
  const readerOf = (path: string) => readers.get(path) as CollectionReader
  return { watching, readerOf, clock, asked, lives, room, readers, changes: () => changes }
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

t.test('a collection that is not watched is read alone, once a minute', async (t) => {
  const { watching, clock, asked, lives } = start(t, 0, { namespaces: ['a', 'b', 'c'] })
  watching.update([entry('ConfigMap', 'a'), entry('ConfigMap', 'b')], kinds)
  await clock.pass(60_000)
  t.strictSame(asked.toSorted(), ['/api/v1/namespaces/a/configmaps', '/api/v1/namespaces/b/configmaps'])
  t.equal(lives.length, 2)
  await clock.pass(60_000)
  t.equal(asked.length, 4)
})

t.test('fields that a rule leaves to others are read as a round reads them', async (t) => {
  const drift = { ignore: [{ kinds: ['ConfigMap'], paths: ['.data.size'] }] }
  const { watching, clock, lives } = start(t, 0, { drift })
  watching.update([entry('ConfigMap', 'shop')], kinds)
  await clock.pass(60_000)
  t.match(lives, [{ ignored: /^[0-9a-f]{32}$/ }])
})

t.test('a collection is watched once another source has ended a watch', async (t) => {
  const { watching, clock, asked, room, readers, readerOf } = start(t, 0)
  watching.update([entry('ConfigMap', 'shop')], kinds)
  await clock.pass(60_000)
  t.strictSame([asked.length, readers.size], [1, 0])
  room.limit = 1
  await clock.pass(60_000)
  t.strictSame([asked.length, readers.size], [2, 1])
  t.strictSame(watching.unwatched, ['ConfigMap: agentk has as many watches as it may have'], 'until it has listed')
  readerOf('/api/v1/configmaps').listing()
  readerOf('/api/v1/configmaps').listed()
  t.strictSame(watching.unwatched, [])
  await clock.pass(600_000)
  t.equal(asked.length, 2, 'it is read no more')
})

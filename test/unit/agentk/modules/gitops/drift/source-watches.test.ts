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
  const metadata: object[] = []
  const room = { limit, isShared: false }
  const left: string[] = []
  const suspected: string[] = []
  const seen: string[] = []
  let changes = 0
  const watching = new SourceWatches(
    {
      watches: {
        follow: ({ path }, reader) => {
          if (readers.size >= room.limit) return undefined
          readers.set(path, reader)
          return () => readers.delete(path)
        },
        isOpen: () => room.isShared,
      },
      client: undefined as never,
      lane: {
        json: async (_, path) => {
          asked.push(path.split('?')[0] as string)
          const [, namespace = 'shop'] = /namespaces\/([a-z]+)/.exec(path) ?? []
          return { status: 200, body: { metadata: { resourceVersion: '1' }, items: [object(namespace)] } }
        },
      },
      seen: ({ namespace }, whole, live) => {
        seen.push(namespace)
        lives.push(live())
        metadata.push(whole)
      },
      seenFirst: ({ namespace }) => namespace === 'suspect',
      left: ({ namespace }) => left.push(namespace),
      suspected: ({ namespace }) => suspected.push(namespace),
      onUnwatched: () => changes++,
      clock,
      random: () => 0.5,
      log: capturedLog().log,
    },
    sourceOptions(block, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }),
    ending.signal,
  )
  const readerOf = (path: string) => readers.get(path) as CollectionReader
  return {
    watching,
    readerOf,
    clock,
    asked,
    lives,
    metadata,
    room,
    readers,
    seen,
    left,
    suspected,
    changes: () => changes,
  }
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
  const { watching, left, suspected } = start(t, 10)
  const lost = { ...entry('ConfigMap', 'shop'), version: 'v2' }
  watching.update([lost, entry('Secret', 'shop'), { ...lost, digest: '' }], kinds)
  t.strictSame([suspected, left], [['shop'], []], 'but for one that was never applied')
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

t.test('a collection that is not watched is read alone, once a minute', async (t) => {
  const { watching, clock, asked, lives, metadata } = start(t, 0, { namespaces: ['a', 'b', 'c'] })
  watching.update([entry('ConfigMap', 'a'), entry('ConfigMap', 'b')], kinds)
  await clock.pass(60_000)
  t.strictSame(asked.toSorted(), ['/api/v1/namespaces/a/configmaps', '/api/v1/namespaces/b/configmaps'])
  t.equal(lives.length, 2)
  t.strictSame(metadata, [object('a'), object('b')], 'with their owners, as a watch shows them')
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
  t.strictSame(watching.unwatched, ['ConfigMap: agentk has as many watches as it may have'], 'until it is open')
  readerOf('/api/v1/configmaps').listing()
  readerOf('/api/v1/configmaps').listed()
  readerOf('/api/v1/configmaps').following()
  t.strictSame(watching.unwatched, [])
  await clock.pass(600_000)
  t.equal(asked.length, 2, 'it is read no more')
})

/** Reads the ConfigMaps as the first round of a term. @returns their namespaces; undefined: the round is to list them */
function readFirst(watching: SourceWatches, entries: readonly InventoryEntry[]) {
  const list = watching.begin(entries, kinds)
  const kind = kinds.find({ group: '', kind: 'ConfigMap' })
  const found: string[] = []
  const read = kind && list?.(kind, ({ namespace }) => found.push(namespace), new AbortController().signal)
  return Promise.resolve(read).then((isListed) => (isListed ? found : undefined))
}
const maps = '/api/v1/configmaps'

t.test('the first round of a term reads from the list with which a watch begins', async (t) => {
  const { watching, readerOf, left, suspected, seen } = start(t, 10)
  const namespaces = ['shop', 'suspect', 'moved', 'applied', 'absent']
  const entries = namespaces.map((namespace) => entry('ConfigMap', namespace))
  const read = readFirst(watching, entries)
  const reader = readerOf(maps)
  reader.seen(object('stale'))
  reader.listing()
  for (const namespace of namespaces.slice(0, 4)) reader.seen(object(namespace))
  reader.listed()
  t.strictSame(await read, ['shop', 'suspect', 'moved', 'applied'])
  t.strictSame([left, suspected, seen], [[], [], []], 'the round judges them')
  const moved = { time: '', generation: 2 }
  const after = entries.map((one) => {
    if (one.key.namespace === 'moved') return { ...one, ...moved }
    return one.key.namespace === 'applied' ? { ...one, ...moved, time: '2026-06-01T00:00:00Z' } : one
  })
  watching.update(after, kinds)
  t.strictSame([suspected, left], [['suspect', 'moved'], []], 'what the round does not judge is compared after it')
  reader.seen(object('shop'))
  t.strictSame(seen, ['shop'])
  watching.update(after, kinds)
  t.equal(suspected.length, 2, 'once')
})

t.test('a round lists what no watch lists for it', async (t) => {
  const entries = [entry('ConfigMap', 'shop')]
  const refused = start(t, 10)
  const first = readFirst(refused.watching, entries)
  refused.readerOf(maps).refused(403)
  t.equal(await first, undefined, 'refused')
  const slow = start(t, 10)
  const second = readFirst(slow.watching, entries)
  slow.readerOf(maps).listing()
  slow.readerOf(maps).seen(object('shop'))
  await slow.clock.pass(10_000)
  t.equal(await second, undefined, 'no end of the list within 10 s')
  slow.readerOf(maps).seen(object('shop'))
  t.strictSame(slow.seen, ['shop'])
  const ended = start(t, 10)
  const third = readFirst(ended.watching, entries)
  ended.watching.stop()
  t.equal(await third, undefined, 'ended')
  const shared = start(t, 10)
  shared.room.isShared = true
  t.equal(await readFirst(shared.watching, entries), undefined, 'another source watches it: its next list comes later')
  t.equal(await readFirst(start(t, 0).watching, entries), undefined, 'beyond the limit of watches')
  t.equal(
    start(t, 10, { namespaces: ['shop'] }).watching.begin(entries, kinds),
    undefined,
    'a watch for each namespace',
  )
})

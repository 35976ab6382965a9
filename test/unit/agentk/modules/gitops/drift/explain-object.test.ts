import t from 'tap'
import type { ApiLane } from '../../../../../../src/agentk/cluster/background-requests.ts'
import { metadataOnly } from '../../../../../../src/agentk/cluster/object-list.ts'
import { explainObject, valuesOfObject } from '../../../../../../src/agentk/modules/gitops/drift/explain-object.ts'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import { fieldsHash } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { leaf, entry as managedEntry, object, ownEntry } from './managed.ts'

/** An object that somebody has made larger than agentk reads: a text of `<` takes six times its bytes as JSON. */

const { signal } = new AbortController()
const options = sourceOptions({}, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' })
const resource = {
  kind: 'ConfigMap',
  plural: 'configmaps',
  isNamespaced: true,
  verbs: ['get', 'list', 'patch', 'delete'],
  hasStatus: false,
  names: { singular: '', short: [], categories: [] },
}
const kinds = new ClusterKinds([{ group: '', version: 'v1', isStale: false, resources: [resource] }])
const key = { group: '', kind: 'ConfigMap', namespace: 'shop', name: 'web' }
const manifest = { key, version: 'v1', digest: 'd1', file: 'a.yaml', line: 1, object: { metadata: { name: 'web' } } }
const own = { 'f:data': { 'f:a': leaf } }
const entry: InventoryEntry = {
  key,
  version: 'v1',
  wave: 0,
  uid: 'u1',
  digest: 'd1',
  fields: fieldsHash(own),
  time: '2026-06-01T00:00:00Z',
  generation: 0,
  state: 'applied',
  reason: '',
}
const tooLarge = new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: 5e6, maxBytes: 4e6 })

/** @param metadata - answers a request for the metadata alone */
function componentsOf(metadata: () => object) {
  const lane: ApiLane = {
    json: async (_method, _path, _body, _signal, { accept = '' } = {}) => {
      if (accept !== metadataOnly.object) throw tooLarge
      return { status: 200, body: metadata() }
    },
  }
  return { lane, ownLane: lane, dryLanes: { laneOf: async () => ({ lane }) }, kinds, clock: new ManualClock() }
}

t.test('a change that the metadata prove is drift, and nothing else is said to be in order', async (t) => {
  const explain = (metadata: () => object) =>
    explainObject({ manifest, entry }, componentsOf(metadata), options, signal)
  const taken = object({}, [ownEntry({ 'f:data': leaf }), managedEntry('kubectl-edit', own)])
  const reason = /as JSON it is larger than 4 MiB/
  t.match(await explain(() => taken), { kind: 'notCompared', isProven: true, reason, of: { live: { uid: 'u1' } } })
  const added = object({}, [ownEntry(own), managedEntry('kubectl-edit', { 'f:data': { 'f:junk': leaf } })])
  t.match(await explain(() => added), { kind: 'notCompared', isProven: false, reason, of: { live: { uid: 'u1' } } })
  const alsoTooLarge = () => {
    throw tooLarge
  }
  t.match(await explain(alsoTooLarge), { kind: 'notCompared', isProven: false, reason, of: undefined })
  const away = () => {
    throw new Error('away')
  }
  await t.rejects(explain(away), /away/)
})

t.test('its values are not compared, and the question goes on with other objects', async (t) => {
  const components = componentsOf(() => ({}))
  const values = await valuesOfObject({ manifest, entry }, components, options, signal)
  t.match(values, { kind: 'notCompared', reason: /as JSON it is larger than 4 MiB/ })
})

import t from 'tap'
import type { ApiLane } from '../../../../../../src/agentk/cluster/background-requests.ts'
import type { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import { readLiveObjects } from '../../../../../../src/agentk/modules/gitops/live/read-live.ts'
import { ownerAnnotation } from '../../../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'

t.test('a marked object that no list can have does not hide the others of its kind', async (t) => {
  const asked: string[] = []
  const lane: ApiLane = {
    json: async (_, path) => {
      asked.push(path)
      if (path.includes('?')) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: 5e6, maxBytes: 4e6 })
      return { status: 200, body: { metadata: { namespace: 'shop', name: 'a', uid: 'u' } } }
    },
  }
  const kind = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps', isNamespaced: true }
  const kinds = { find: () => kind, isStale: () => false } as unknown as ClusterKinds
  const key = { group: '', kind: 'ConfigMap', namespace: 'shop', name: 'a' }
  const options = { id: '42-7', manager: 'agentk-42-7' }
  const wanted = [{ key, version: 'v1', uid: 'u' }]
  const { objects } = await readLiveObjects(wanted, { lane, kinds }, options, new AbortController().signal)
  t.match([...objects.values()], [{ uid: 'u' }])
  t.equal(asked.at(-1), '/api/v1/namespaces/shop/configmaps/a')
})

t.test('of objects that somebody else has marked so many are kept', async (t) => {
  const items = Array.from({ length: 500 }, (_, index) => ({
    metadata: { namespace: 'shop', name: `m${index}`, uid: `u${index}`, annotations: { [ownerAnnotation]: '42-7' } },
  }))
  const lane: ApiLane = { json: async () => ({ status: 200, body: { metadata: { resourceVersion: '1' }, items } }) }
  const kind = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps', isNamespaced: true }
  const kinds = { find: () => kind, isStale: () => false } as unknown as ClusterKinds
  const key = { group: '', kind: 'ConfigMap', namespace: 'shop', name: 'm499' }
  const wanted = [{ key, version: 'v1', uid: 'u499' }]
  const options = { id: '42-7', manager: 'agentk-42-7' }
  const { objects, orphans } = await readLiveObjects(wanted, { lane, kinds }, options, new AbortController().signal)
  t.equal(orphans.length, 100)
  t.match([...objects.values()], [{ uid: 'u499' }], 'what is wanted is found behind them')
})

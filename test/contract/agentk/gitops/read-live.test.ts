import t from 'tap'
import { readLiveObjects } from '../../../../src/agentk/modules/gitops/live/read-live.ts'
import { inventoryLabel, ownerAnnotation } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import { keyText, type ObjectKey } from '../../../../src/kubernetes/key.ts'
import { Ground, keyOf, skip } from './ground.ts'

/** Reads of a source's objects in the cluster, on a real API server. */

const definition = {
  spec: {
    group: 'hidden.example.com',
    scope: 'Namespaced',
    names: { plural: 'gizmos', kind: 'Gizmo', singular: 'gizmo' },
    versions: [{ name: 'v1', served: false, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
  },
}

t.test(
  'an object of a kind that nobody serves is gone only with its definition',
  { skip, timeout: 60_000 },
  async (t) => {
    const ground = await Ground.start(t)
    const key = keyOf('CustomResourceDefinition', 'gizmos.hidden.example.com', '', 'apiextensions.k8s.io')
    await ground.create(key, { metadata: { name: key.name }, ...definition })
    const read = async (one: ObjectKey, uid: string) => {
      const lane = ground.lanes.lane('apply')
      const options = { id: '42-7', manager: 'agentk-42-7' }
      const { signal } = new AbortController()
      const { objects } = await readLiveObjects(
        [{ key: one, version: 'v1', uid }],
        { lane, kinds: ground.kinds },
        options,
        signal,
      )
      return objects.get(keyText(one))
    }
    const gizmo = keyOf('Gizmo', 'one', 'shop', 'hidden.example.com')
    t.equal(await read(gizmo, 'made'), null)
    t.equal(await read(gizmo, ''), undefined, 'it was never made')
    t.equal(await read(keyOf('Other', 'one', 'shop', 'hidden.example.com'), 'made'), undefined)
    t.equal(await read(keyOf('Gizmo', 'one', 'shop', 'example.com'), 'made'), undefined)
  },
)

t.test('objects in two versions of a kind: one list, and none is an orphan', { skip, timeout: 60_000 }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'shop', ''), { metadata: { name: 'shop' } })
  const options = { id: '42-7', manager: 'agentk-42-7' }
  const spec = { maxReplicas: 3, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' } }
  const metadata = (name: string) => ({
    name,
    labels: { [inventoryLabel]: options.id },
    annotations: { [ownerAnnotation]: options.id },
  })
  const keys = ['one', 'two', 'orphan'].map((name) => keyOf('HorizontalPodAutoscaler', name, 'shop', 'autoscaling'))
  for (const key of keys) await ground.create(key, { metadata: metadata(key.name), spec })
  const wanted = keys.slice(0, 2).map((key, i) => ({ key, version: `v${i + 1}`, uid: 'made' }))
  ground.asked.length = 0
  const components = { lane: ground.lanes.lane('apply'), kinds: ground.kinds }
  const { objects, orphans } = await readLiveObjects(wanted, components, options, new AbortController().signal)
  t.strictSame([...objects.keys()].sort(), keys.slice(0, 2).map(keyText).sort())
  t.strictSame(orphans, keys.slice(2))
  t.equal(ground.asked.length, 1)
})

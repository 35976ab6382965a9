import t from 'tap'
import { readLiveObjects } from '../../../../src/agentk/modules/gitops/live/read-live.ts'
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

import t, { type Test } from 'tap'
import { keyText, type ObjectKey } from '../../../../src/kubernetes/key.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { type Files, Pod } from './pod.ts'

/** Agents of one cluster with overlapping reach: no agent touches objects of another. */

const namespaces = ['east', 'west'] as const
const names = ['a', 'b', 'c', 'd', 'e', 'f']

interface Party {
  readonly pod: Pod
  readonly files: (value: string) => Files
}

const manifest = (namespace: string, name: string, value: string) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name }, data: { value } })

const filesIn = (own: readonly string[], value: string): Files =>
  Object.fromEntries(
    own.flatMap((namespace) => names.map((name) => [`${namespace}-${name}.json`, manifest(namespace, name, value)])),
  )

t.test('agents beside one another', { skip, timeout: 180_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of [...namespaces, 'gitops'])
    await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const party = (agentId: bigint, own: readonly string[], block: SourceBlock = {}): Party => ({
    pod: new Pod(ground, { agentId, projectId: 1n, block: { prune_limit: '100%', ...block } }),
    files: (value) => filesIn(own, `${agentId} ${value}`),
  })
  const keys = namespaces.flatMap((namespace) => names.map((name) => keyOf('ConfigMap', name, namespace)))
  const ownerOf = async (key: ObjectKey) =>
    (await ground.get(key))?.metadata.annotations['config.k8s.io/owning-inventory']

  /** All parties apply everything in their reach at once. Then one after another leaves. */
  const together = async (parties: readonly Party[], t: Test) => {
    const first = await Promise.all(parties.map(({ pod, files }) => pod.bring(files('first'))))
    const owners = new Map(await Promise.all(keys.map(async (key) => [keyText(key), await ownerOf(key)] as const)))
    for (const [index, { all }] of first.entries()) {
      const { id } = (parties[index] as Party).pod.options
      for (const {
        manifest: { key },
        end,
      } of all) {
        const isOwn = owners.get(keyText(key)) === id
        if (isOwn) t.equal(end.kind, 'applied', `${id} has made ${keyText(key)}`)
        else t.match(end, { kind: 'failed', problem: { kind: 'foreign' } }, `${id} leaves ${keyText(key)}`)
      }
    }
    const uids = await Promise.all(keys.map(async (key) => (await ground.get(key)).metadata.uid))
    await Promise.all(parties.map(({ pod, files }) => pod.bring(files('second'))))
    for (const [index, key] of keys.entries()) {
      const { metadata, data } = await ground.get(key)
      const owner = owners.get(keyText(key)) as string
      t.equal(data.value, `${owner.split('-')[0]} second`, keyText(key))
      t.equal(metadata.uid, uids[index], `${keyText(key)} is the same object`)
    }
    for (const { pod } of parties) {
      const before = new Set(
        (await Promise.all(keys.map(async (key) => ({ key, owner: await ownerOf(key) })))).flatMap(({ key, owner }) =>
          owner === pod.options.id ? [keyText(key)] : [],
        ),
      )
      const { planDigest } = await pod.bring({})
      if (before.size === 0) continue // this party has applied nothing
      const { pruned } = await pod.bring({}, { approved: planDigest })
      t.strictSame(pruned.map(keyText).sort(), [...before].sort(), `${pod.options.id} takes its own along`)
    }
    for (const key of keys) t.equal(await ground.get(key), undefined)
  }

  await t.test('two whose reach is all', async (t) => {
    await together([party(51n, namespaces), party(52n, namespaces)], t)
  })

  await t.test('two of a namespace each, and one of all', async (t) => {
    const parties = [
      party(61n, ['east'], { namespaces: ['east'], default_namespace: 'east' }),
      party(62n, ['west'], { namespaces: ['west'], default_namespace: 'west' }),
      party(63n, namespaces),
    ]
    await together(parties, t)
  })

  await t.test('a namespaced one refuses what is elsewhere', async (t) => {
    const { pod } = party(71n, namespaces, { namespaces: ['east'], default_namespace: 'east' })
    const result = await pod.round(filesIn(namespaces, '1'))
    t.match(result, { kind: 'refused', problems: [{ file: /^west-/ }] })
    for (const key of keys) t.equal(await ground.get(key), undefined)
  })
})

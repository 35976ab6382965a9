import t from 'tap'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { type AppliedObject, DriftSide, manager } from './drift-side.ts'
import { configMap, deployment, Ground, keyOf, skip } from './ground.ts'

/** Changes by others on a real API server: the manager that is named for each, or `unknown`. */

const web = '.spec.template.spec.containers[name="web"]'
const container = { name: 'web', image: 'nginx:1', env: ['A', 'B'].map((name) => ({ name, value: name })) }
const template = (name: string) => ({ metadata: { labels: { app: name } }, spec: { containers: [container] } })

interface MadeKind {
  readonly key: (name: string) => ObjectKey
  readonly object: (name: string) => ObjectTree
}

const deployments: MadeKind = {
  key: (name) => keyOf('Deployment', name, 'shop', 'apps'),
  object: (name) => deployment(name, { replicas: 2, template: template(name) }),
}
const maps: MadeKind = {
  key: (name) => keyOf('ConfigMap', name),
  object: (name) => configMap(name, { a: '1', b: '2' }),
}
const services: MadeKind = {
  key: (name) => keyOf('Service', name),
  object: (name) => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'shop' },
    spec: { selector: { app: 'x' }, ports: [{ name: 'http', port: 80 }] },
  }),
}

interface Case {
  readonly about: string
  readonly of: MadeKind
  readonly change: (side: DriftSide, applied: AppliedObject) => Promise<unknown>
  readonly path: string
  readonly kind: string
  /** manager, or `unknown` */
  readonly by: string
}

const cases: Case[] = []
const add = (about: string, of: MadeKind, where: string, by: string, change: Case['change']) => {
  const [kind = '', path = ''] = where.split(' ')
  cases.push({ about, of, kind, path, by, change })
}
const inMap = (data: object) => ({ data })
const inWeb = (fields: object) => ({
  spec: { template: { spec: { containers: [{ name: 'web', ...fields }] } } },
})

for (const by of ['kubectl-edit', 'k9s', 'node-fetch', 'helm']) {
  add(`${by} scales by a patch`, deployments, 'changed .spec.replicas', by, (side, { key }) =>
    side.patch(key, 'merge', by, { spec: { replicas: 3 } }),
  )
  add(`${by} sets an image`, deployments, `changed ${web}.image`, by, (side, { key }) =>
    side.patch(key, 'strategic', by, inWeb({ image: 'nginx:2' })),
  )
  add(`${by} puts the whole object with another image`, deployments, `changed ${web}.image`, by, (side, { key }) =>
    side.put(key, by, (live) => {
      live.spec.template.spec.containers[0].image = 'nginx:3'
    }),
  )
  add(`${by} changes a value of a ConfigMap`, maps, 'changed .data.a', by, (side, { key }) =>
    side.patch(key, 'merge', by, inMap({ a: '9' })),
  )
  add(`${by} removes a key of a ConfigMap`, maps, 'missing .data.a', 'unknown', (side, { key }) =>
    side.patch(key, 'merge', by, inMap({ a: null })),
  )
  add(`${by} removes an item of a list`, deployments, `missing ${web}.env[name="A"]`, 'unknown', (side, { key }) =>
    side.patch(key, 'json', by, [{ op: 'remove', path: '/spec/template/spec/containers/0/env/0' }]),
  )
}

/** Adds a case with two writers of a ConfigMap. @param after - `second`: in the next second */
const addTwo = (about: string, where: string, by: string, after: 'at once' | 'second', one: object, two: object) =>
  add(about, maps, where, by, async (side, { key }) => {
    await side.patch(key, 'merge', 'first', inMap(one))
    if (after === 'second') await side.nextSecond()
    await side.patch(key, 'merge', 'second', inMap(two))
  })
addTwo('two set other values, one after the other', 'changed .data.a', 'second', 'second', { a: '8' }, { a: '9' })
addTwo('two set other values within a second', 'changed .data.a', 'second', 'at once', { a: '8' }, { a: '9' })
addTwo('the second sets the value of the first', 'changed .data.a', 'first', 'second', { a: '9' }, { a: '9' })
addTwo('another writes beside it later', 'changed .data.a', 'first', 'second', { a: '9' }, { z: '9' })
addTwo('one removes, another writes beside it later', 'missing .data.a', 'unknown', 'second', { a: null }, { z: '9' })

add('another applies the value of the first', maps, 'changed .data.a', 'first', async (side, { key }) => {
  await side.patch(key, 'merge', 'first', inMap({ a: '9' }))
  await side.nextSecond()
  await side.ground.apply(key, configMap(key.name, { a: '9' }), 'second')
})
add('the status is written later', deployments, 'changed .spec.replicas', 'first', async (side, { key }) => {
  await side.patch(key, 'merge', 'first', { spec: { replicas: 4 } })
  await side.nextSecond()
  await side.ground.merge(key, { status: { observedGeneration: 5 } }, 'kube-controller-manager', 'status')
})
add('one that has written before removes', maps, 'missing .data.a', 'unknown', async (side, { key }) => {
  await side.patch(key, 'merge', 'first', inMap({ z: '9' }))
  await side.nextSecond()
  await side.patch(key, 'merge', 'first', inMap({ a: null }))
})
add('one removes and adds in one write', maps, 'missing .data.a', 'unknown', (side, { key }) =>
  side.patch(key, 'merge', 'first', inMap({ a: null, z: '1' })),
)
add('kubectl scale', deployments, 'changed .spec.replicas', 'kubectl', (side, { key }) =>
  side.ground.merge(key, { spec: { replicas: 4 } }, 'kubectl', 'scale'),
)
add('a controller scales', deployments, 'changed .spec.replicas', 'kube-controller-manager', (side, { key }) =>
  side.ground.merge(key, { spec: { replicas: 4 } }, 'kube-controller-manager', 'scale'),
)
add(
  'an annotation of the source through `status`',
  deployments,
  'changed .metadata.annotations.agent.gitlab.com/digest',
  'odd',
  (side, { key }) =>
    side.ground.merge(key, { metadata: { annotations: { 'agent.gitlab.com/digest': 'x' } } }, 'odd', 'status'),
)
const replicasOnly = ({ name }: ObjectKey, spec: object | undefined) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace: 'shop' },
  ...(spec && { spec }),
})
add('another forces its apply', deployments, 'changed .spec.replicas', 'argocd-controller', (side, { key }) =>
  side.ground.apply(key, replicasOnly(key, { replicas: 4 }), 'argocd-controller'),
)
add(
  'another forces it, then leaves it out',
  deployments,
  'changed .spec.replicas',
  'unknown',
  async (side, { key }) => {
    await side.ground.apply(key, replicasOnly(key, { replicas: 4 }), 'other')
    await side.ground.apply(key, replicasOnly(key, undefined), 'other')
  },
)
add('a key of a selector, which is one value', services, 'changed .spec.selector', 'first', (side, { key }) =>
  side.patch(key, 'merge', 'first', { spec: { selector: { b: 'c' } } }),
)
add('a port is replaced', services, 'missing .spec.ports[port=80,protocol="TCP"]', 'unknown', (side, { key }) =>
  side.patch(key, 'json', 'first', [{ op: 'replace', path: '/spec/ports', value: [{ name: 'x', port: 90 }] }]),
)
add('a port is renamed', services, 'changed .spec.ports[port=80,protocol="TCP"].name', 'first', (side, { key }) =>
  side.patch(key, 'json', 'first', [{ op: 'replace', path: '/spec/ports/0/name', value: 'web' }]),
)
add('kubectl label', maps, 'changed .metadata.labels.agent.gitlab.com/inventory', 'kubectl-label', (side, { key }) =>
  side.patch(key, 'merge', 'kubectl-label', { metadata: { labels: { 'agent.gitlab.com/inventory': 'x' } } }),
)
add('the owners are erased, then a value is changed', maps, 'changed .data.a', 'unknown', async (side, { key }) => {
  await side.patch(key, 'merge', 'first', { metadata: { managedFields: [{}] } })
  await side.patch(key, 'merge', 'second', inMap({ a: '9' }))
})
add('fourteen others have written since', maps, 'changed .data.a', 'unknown', async (side, { key }) => {
  await side.patch(key, 'merge', 'first', inMap({ a: '9' }))
  await side.nextSecond()
  for (let i = 0; i < 14; i++) await side.patch(key, 'merge', `m${i}`, inMap({ [`k${i}`]: '1' }))
})
add('deleted and created again', maps, 'changed .data.a', 'kubectl-create', async (side, { key }) => {
  await side.delete(key)
  await side.ground.create(key, configMap(key.name, { a: '9', b: '2' }), 'kubectl-create')
})
add('our own manager applies', maps, 'changed .data.a', 'unknown', (side, { key, object }) =>
  side.ground.apply(key, { ...object, data: { a: '9', b: '2' } }, manager),
)
add('our own manager updates', maps, 'changed .data.a', 'unknown', (side, { key }) =>
  side.patch(key, 'merge', manager, inMap({ a: '9' })),
)
add('kubectl set env', deployments, `changed ${web}.env[name="A"].value`, 'kubectl-set', (side, { key }) =>
  side.patch(key, 'strategic', 'kubectl-set', inWeb({ env: [{ name: 'A', value: '7' }] })),
)
add('items in another order', deployments, `reordered ${web}.env`, 'unknown', (side, { key }) =>
  side.put(key, 'first', (live) => live.spec.template.spec.containers[0].env.reverse()),
)
add('a container is renamed', deployments, `missing ${web}`, 'unknown', (side, { key }) =>
  side.patch(key, 'json', 'first', [{ op: 'replace', path: '/spec/template/spec/containers/0/name', value: 'w2' }]),
)
add('a manager with a long name', maps, 'changed .data.a', 'x'.repeat(128), (side, { key }) =>
  side.patch(key, 'merge', 'x'.repeat(128), inMap({ a: '9' })),
)

t.test('managers of changes', { skip, timeout: 300_000 }, async (t) => {
  const side = new DriftSide(await Ground.start(t))
  await side.ground.create(keyOf('Namespace', 'shop', ''), { metadata: { name: 'shop' } })
  const applied: AppliedObject[] = []
  for (const [i, { of }] of cases.entries()) applied.push(await side.apply(of.key(`c${i}`), of.object(`c${i}`)))
  await side.nextSecond() // a later apply of our own manager has another time
  await Promise.all(cases.map(({ change }, i) => change(side, applied[i] as AppliedObject)))

  const named: string[] = []
  for (const [i, { about, path, kind, by }] of cases.entries()) {
    const one = applied[i] as AppliedObject
    const found = await side.explain(one)
    const listed = 'differences' in found ? found.differences.listed : []
    const difference = listed.find((each) => each.path === path)
    t.match({ ...difference, from: found.kind }, { from: 'drifted', kind, path }, about)
    const blamed = difference?.by ?? 'unknown'
    t.equal(blamed === 'unknown' ? blamed : blamed.manager, by, about)
    const { subresource, time } = blamed === 'unknown' ? { subresource: 'scale', time: '' } : blamed
    if (subresource === 'scale') t.equal(time, '', `${about}: the API server records no time`)
    else t.ok(time >= (one.reference.time ?? ''), `${about}: with a time`)
    named.push(blamed === 'unknown' ? blamed : 'named')
    // the metadata alone ask for the comparison, also right after a restart
    for (const isKnown of [true, false])
      t.match(await side.judge(one, isKnown), { kind: 'suspect' }, `${about}: ${isKnown}`)
  }
  const count = (kind: string) => named.filter((one) => one === kind).length
  t.strictSame([named.length, count('named'), count('unknown')], [51, 32, 19])
})

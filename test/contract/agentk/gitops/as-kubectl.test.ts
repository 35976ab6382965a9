import t, { type Test } from 'tap'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { Seeded } from '../../../support/seeded.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { KubectlReference } from './kubectl-reference.ts'
import { Pod } from './pod.ts'
import { RandomManifests } from './random-manifests.ts'

/** A source and `kubectl apply --server-side` make the same objects from the same manifests. */

const crd = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'tools.nulls.example.com' },
  spec: {
    group: 'nulls.example.com',
    scope: 'Namespaced',
    names: { plural: 'tools', kind: 'Tool', singular: 'tool' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                properties: {
                  mode: { type: 'string', nullable: true, default: 'auto' },
                  level: { type: 'string', default: 'info' },
                  size: { type: 'integer', nullable: true },
                  values: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
                  texts: { type: 'object', additionalProperties: { type: 'string', nullable: true } },
                  steps: {
                    type: 'array',
                    items: {
                      type: 'object',
                      required: ['name'],
                      properties: { name: { type: 'string' }, run: { type: 'string', nullable: true, default: 'x' } },
                    },
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['name'],
                  },
                  plain: { type: 'array', items: { type: 'string', nullable: true } },
                },
              },
              status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
            },
          },
        },
      },
    ],
  },
}

const object = (apiVersion: string, kind: string, name: string, more: object, metadata: object = {}): ObjectTree => ({
  apiVersion,
  kind,
  metadata: { name, ...metadata },
  ...more,
})
const tool = (name: string, spec: object, more: object = {}) =>
  object('nulls.example.com/v1', 'Tool', name, { spec, ...more })
const ports = [{ port: 80 }]

/** A null in each place where kubectl and agentk might differ. */
const nulls: readonly ObjectTree[] = [
  object('v1', 'ConfigMap', 'data', { data: { LOG_LEVEL: 'info', EXTRA_ARGS: null } }),
  object('v1', 'ConfigMap', 'binary', { binaryData: { a: null, b: 'eA==' } }),
  object('v1', 'ConfigMap', 'all', { data: null, immutable: null }),
  object('v1', 'ConfigMap', 'labels', {}, { labels: { a: null, b: 'c' }, annotations: { d: null } }),
  object('v1', 'ConfigMap', 'no-labels', {}, { labels: null, annotations: null, finalizers: null }),
  object('v1', 'ConfigMap', 'owners', {}, { ownerReferences: null, creationTimestamp: null }),
  object('v1', 'Secret', 'text', { stringData: { token: null, user: 'a' } }),
  object('v1', 'Secret', 'bytes', { data: { token: null, user: 'YQ==' } }),
  object('v1', 'Secret', 'both', { data: { token: 'YQ==' }, stringData: { token: null } }),
  object('v1', 'Secret', 'neither', { data: null, stringData: null, type: null }),
  object('v1', 'Secret', 'no-text', { stringData: {} }),
  object('v1', 'Secret', 'empty-beside-null', { data: null, stringData: {} }),
  object('v1', 'Secret', 'both-empty', { data: {}, stringData: {} }),
  object('v1', 'Service', 'selector', { spec: { selector: { app: 'web', track: null }, ports } }),
  object('v1', 'Service', 'port', { spec: { selector: { app: 'web' }, ports: [{ port: 80, targetPort: null }] } }),
  object('networking.k8s.io/v1', 'NetworkPolicy', 'peer', {
    spec: { podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: { role: null } } }] }] },
  }),
  object('networking.k8s.io/v1', 'NetworkPolicy', 'pods', { spec: { podSelector: { matchLabels: { role: null } } } }),
  object('networking.k8s.io/v1', 'NetworkPolicy', 'rule', { spec: { podSelector: {}, ingress: [{ from: null }] } }),
  object('networking.k8s.io/v1', 'NetworkPolicy', 'item', { spec: { podSelector: {}, ingress: [null] } }),
  object('apps/v1', 'Deployment', 'pods', {
    spec: {
      replicas: null,
      strategy: null,
      selector: { matchLabels: { app: 'pods', track: null } },
      template: {
        metadata: { labels: { app: 'pods', track: null }, creationTimestamp: null },
        spec: {
          nodeSelector: { disk: null },
          containers: [
            { name: 'web', image: 'nginx:1', env: [{ name: 'A', value: null }], resources: { limits: { cpu: null } } },
            { name: 'side', image: 'nginx:1', args: ['a', null], livenessProbe: null, resources: null },
          ],
          volumes: [{ name: 'a', emptyDir: null }],
        },
      },
    },
  }),
  object('rbac.authorization.k8s.io/v1', 'Role', 'rules', {
    rules: [{ apiGroups: [null], resources: ['x'], verbs: ['get'] }],
  }),
  object('rbac.authorization.k8s.io/v1', 'Role', 'no-rules', { rules: null }),
  tool('nullable', { mode: null, level: null, size: null }),
  tool('kept', { values: { livenessProbe: null, deep: { list: [null, { a: null }], map: { b: null } } } }),
  tool('texts', { texts: { a: null, b: 'c' } }),
  tool('steps', { steps: [{ name: 'a', run: null }, { name: 'b' }], plain: ['a', null] }),
  tool('none', { values: null, texts: null, steps: null }),
  object('nulls.example.com/v1', 'Tool', 'empty', { spec: null }),
  tool('status', { mode: 'a' }, { status: { ready: true, none: null } }),
  tool('no-status', { mode: 'a' }, { status: null }),
]

/** Checks that both have applied the same objects of these kinds, field by field. */
async function compare(t: Test, reference: KubectlReference, kinds: readonly ObjectTree[]) {
  const theirs = await reference.applied('kubectl', kinds)
  const ours = await reference.applied('agentk', kinds)
  for (const [name, one] of theirs) t.strictSame(ours.get(name), one, name)
  t.strictSame([...ours.keys()].sort(), [...theirs.keys()].sort())
  return theirs
}

/**
 * Number of random manifests in each of two commits, set by KAS_MANIFESTS. The second commit drops some of the first.
 */
const generated = Number(process.env.KAS_MANIFESTS ?? 500)

t.test('as kubectl', { skip, timeout: 300_000 + 1000 * generated }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'gitops', ''), { metadata: { name: 'gitops' } })
  const definition = new Pod(ground, { projectId: 3n, block: { default_namespace: 'gitops' } })
  await definition.bring({ 'crd.yaml': JSON.stringify(crd), 'tool.yaml': JSON.stringify(tool('first', {})) })
  await ground.readKinds()

  await t.test('nulls in every place', async (t) => {
    const reference = new KubectlReference(ground, 'nulls', 1n)
    await reference.start()
    const { refused, failed } = await reference.apply(nulls)
    t.strictSame(failed, ['empty', 'no-status', 'none'])
    t.strictSame(refused, failed)
    const applied = await compare(t, reference, nulls)
    t.equal(applied.size, nulls.length - failed.length)
    t.match(await ground.get(keyOf('ConfigMap', 'data', 'nulls-agentk')), { data: { EXTRA_ARGS: '' } })
    t.match(await ground.get(keyOf('Secret', 'both', 'nulls-agentk')), { data: { token: '' } })
    t.match(await ground.get(keyOf('Tool', 'nullable', 'nulls-agentk', 'nulls.example.com')), {
      spec: { mode: null, level: 'info' },
    })
  })

  await t.test('generated manifests', async (t) => {
    const random = new RandomManifests(Seeded.for(t), 'nulls.example.com/v1')
    const reference = new KubectlReference(ground, 'random', 2n)
    await reference.start()
    for (const commit of ['first', 'second']) {
      const manifests = Array.from({ length: generated }, (_, index) => random.manifest(index))
      const { refused, failed } = await reference.apply(manifests)
      t.strictSame(failed, refused, `${commit}: ${refused.length} are refused`)
      const applied = await compare(t, reference, manifests)
      t.ok(applied.size > generated / 2, `${applied.size} of ${generated} are applied`)
    }
  })
})

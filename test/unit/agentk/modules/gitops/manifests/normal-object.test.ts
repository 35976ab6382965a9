import t from 'tap'
import { treeOf } from '../../../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { normalObject } from '../../../../../../src/agentk/modules/gitops/manifests/normal-object.ts'
import { maxObjectBytes } from '../../../../../../src/proto/gitops/limits.ts'

/** Returns the normalized object, parsed again. */
function normal(object: object, file = 'a.yaml') {
  const kept = normalObject({ object: object as never, file, line: 1 })
  if (typeof kept !== 'object') return kept
  const { json, ...about } = kept
  return { ...about, object: treeOf(json) }
}

const map = (more: object = {}, metadata: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'a', ...metadata },
  ...more,
})

t.test('metadata that the server makes is left out, nulls and status stay', async (t) => {
  const metadata = {
    namespace: 'shop',
    creationTimestamp: null,
    uid: 'u',
    resourceVersion: '1',
    generation: 2,
    managedFields: [],
    selfLink: '/x',
    finalizers: ['f'],
    labels: { a: 'b', c: null },
    annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{}', d: 'e' },
  }
  t.strictSame(normal(map({ status: {}, data: { x: null, y: '1' }, list: [null, { z: null }] }, metadata)), {
    group: '',
    version: 'v1',
    kind: 'ConfigMap',
    namespace: 'shop',
    name: 'a',
    object: {
      ...map({ status: {}, data: { x: null, y: '1' }, list: [null, { z: null }] }),
      metadata: {
        name: 'a',
        namespace: 'shop',
        finalizers: ['f'],
        labels: { a: 'b', c: null },
        annotations: { d: 'e' },
      },
    },
  })
  const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web' } }
  t.match(normal(deployment), { group: 'apps', version: 'v1', kind: 'Deployment', namespace: '', name: 'web' })
})

t.test('stringData of a Secret becomes data', async (t) => {
  const secret = (more: object) => normal({ ...map(more), kind: 'Secret' })
  t.match(secret({ stringData: { a: 'ä', b: null }, data: { a: 'eA==', b: 'eA==', c: 'eQ==' } }), {
    object: { data: { a: 'w6Q=', b: '', c: 'eQ==' }, stringData: undefined },
  })
  t.equal(secret({ stringData: { port: 5432 } }), 'stringData.… is no text: write it in quotes')
  t.equal(secret({ data: { key: 'not base64' } }), 'data.… is no base64: write it so, or as stringData')
  t.match(secret({ data: { a: 'eA==\n', b: '', c: null, d: 'eHh4' } }), { object: { data: { d: 'eHh4' } } })
  t.match(normal(map({ stringData: { a: 'b' } })), { object: { stringData: { a: 'b' } } }, 'of a Secret alone')
})

t.test('fields that a controller writes, as the manifest asks, are left out', async (t) => {
  const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'a' } }
  const aggregationRule = { clusterRoleSelectors: [] }
  for (const rules of [[], null, [{ verbs: ['get'] }]]) {
    t.strictSame(normal({ ...role, aggregationRule, rules }), normal({ ...role, aggregationRule }))
  }
  t.match(normal({ ...role, aggregationRule: null, rules: [{ verbs: ['get'] }] }), { object: { rules: [{}] } })
  const clientConfig = { service: { name: 'a' }, caBundle: 'Cg==' }
  const hooks = {
    webhooks: [
      { name: 'a', clientConfig },
      { name: 'b', clientConfig },
    ],
  }
  const places: readonly object[] = [
    { kind: 'ValidatingWebhookConfiguration', ...hooks },
    { kind: 'CustomResourceDefinition', spec: { conversion: { webhook: { clientConfig } } } },
    { kind: 'APIService', spec: { caBundle: 'Cg==', service: { name: 'a' } } },
  ]
  for (const place of places) {
    const of = (annotations: object) => JSON.stringify(normal(map(place, { annotations })))
    t.notMatch(of({ 'cert-manager.io/inject-ca-from': 'a/b' }), 'caBundle')
    t.match(of({ 'cert-manager.io/inject-ca-from': 'a/b' }), '"name":"a"')
    t.match(of({}), 'caBundle', 'nobody is asked to write it')
  }
  const trusted = normal(
    map(
      { data: { 'ca-bundle.crt': '', own: '1' } },
      { labels: { 'config.openshift.io/inject-trusted-cabundle': 'true' } },
    ),
  )
  t.match(trusted, { object: { data: { own: '1', 'ca-bundle.crt': undefined } } })
})

t.test('what is no object of the cluster is left out', async (t) => {
  const kustomization = { apiVersion: 'kustomize.config.k8s.io/v1beta1', kind: 'Kustomization', resources: [] }
  t.equal(normal(kustomization), undefined)
  t.equal(normal({ resources: ['a.yaml'] }, 'prod/kustomization.yaml'), undefined)
  t.match(normal({ ...kustomization, apiVersion: 'kustomize.toolkit.fluxcd.io/v1', metadata: { name: 'a' } }), {
    name: 'a',
  })
  t.equal(normal(map({}, { annotations: { 'config.kubernetes.io/local-config': 'true' } })), undefined)
  t.match(normal(map({}, { annotations: { 'config.kubernetes.io/local-config': 'false' } })), { name: 'a' })
  t.equal(normal(map({}, { labels: { 'cli-utils.sigs.k8s.io/inventory-id': '42-7' } })), undefined)
})

t.test('what is bad is named', async (t) => {
  const bad: readonly (readonly [object, RegExp])[] = [
    [{ name: 'package', version: '1' }, /^kind is missing$/],
    [{ kind: 'a/b' }, /^kind "a\/b" has characters that are not allowed/],
    [{ kind: true }, /^kind is true, not text: quote it/],
    [{ kind: 'A' }, /^apiVersion is missing$/],
    [{ kind: 'A', apiVersion: 'a/b/c' }, /^apiVersion "a\/b\/c" has characters/],
    [{ kind: 'A', apiVersion: 1 }, /^apiVersion is 1, not text: quote it$/],
    [{ kind: 'A', apiVersion: 'v1' }, /^no metadata$/],
    [{ kind: 'A', apiVersion: 'v1', metadata: {} }, /^metadata\.name is missing$/],
    [{ kind: 'A', apiVersion: 'v1', metadata: { generateName: 'a-' } }, /^generateName/],
    [map({}, { name: 12 }), /^metadata\.name is 12, not text: quote it$/],
    [map({}, { name: true }), /^metadata\.name is true, not text: quote it \(YAML 1\.1 reads y, yes and on so\)$/],
    [map({}, { name: false }), /^metadata\.name is false, .*reads n, no and off so\)$/],
    [map({}, { name: ['a'] }), /^metadata\.name is a list, not text$/],
    [map({}, { name: { password: 'pw' } }), /^metadata\.name is a map, not text$/],
    [map({}, { namespace: { stringData: { a: 'pw' } } }), /^metadata\.namespace is a map, not text$/],
    [{ kind: { data: { a: 'pw' } } }, /^kind is a map, not text$/],
    [map({}, { name: '..' }), /^metadata\.name "\.\." has characters/],
    [map({}, { name: 'a/b' }), /^metadata\.name "a\/b" has characters/],
    [map({}, { namespace: '../x' }), /^metadata\.namespace "\.\.\/x" has characters/],
    [map({}, { namespace: true }), /^metadata\.namespace is true, not text: quote it/],
    [map({}, { labels: { on: true } }), /^metadata\.labels: on is no text: write it in quotes$/],
    [map({}, { annotations: { a: 1 } }), /^metadata\.annotations: a is no text/],
    [map({}, { labels: [] }), /^metadata\.labels is no map$/],
    [map({ data: { a: 'x'.repeat(maxObjectBytes) } }), /^the object is too large: \d+ of 1572864 bytes$/],
  ]
  for (const [object, why] of bad) t.match(normal(object), why)
})

t.test('what aliases share stands in each place', async (t) => {
  const shared = { x: null, y: [{ z: 1 }] }
  t.match(normal(map({ a: shared, b: [shared, shared] })), { object: { a: shared, b: [shared, shared] } })
})

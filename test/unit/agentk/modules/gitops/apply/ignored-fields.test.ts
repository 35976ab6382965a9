import t from 'tap'
import {
  hasIndexes,
  ignoredConflicts,
  ignoredFields,
  ignoringRule,
  isIgnored,
  leftOutOf,
  readRules,
} from '../../../../../../src/agentk/modules/gitops/apply/ignored-fields.ts'
import { type FieldPlace, parseStep } from '../../../../../../src/agentk/modules/gitops/live/field-places.ts'
import { entriesOf, type ManagedEntry } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import type { IgnoreBlock } from '../../../../../../src/proto/gitops/schema.ts'
import { patience } from '../../../../../support/slowness.ts'

const leaf = {}
const own = 'agentk-42-7'
const deployment = { group: 'apps', kind: 'Deployment' }

/** Place by names of FieldsV1, without `f:` where nothing else is meant. */
const place = (...names: string[]): FieldPlace =>
  names.map((name) => {
    const step = parseStep(/^[kvi]:/.test(name) ? name : `f:${name}`)
    if (!step) throw new Error(name)
    return step
  })
const ports = ['spec', 'template', 'spec', 'containers', 'k:{"name":"app"}', 'ports']
const app = ports.slice(0, -1)

const isBy = (rule: IgnoreBlock, at: FieldPlace, of: { manager?: string; key?: object; objects?: unknown[] } = {}) => {
  const { manager = 'scaler', key = deployment, ...objects } = of
  return isIgnored(at, manager, readRules([rule], own), { key: key as typeof deployment, ...objects })
}

t.test('a path covers its field and all below, and nothing beside', async (t) => {
  const covered: readonly (readonly [path: string, at: FieldPlace])[] = [
    ['.spec.replicas', place('spec', 'replicas')],
    ['.spec', place('spec', 'replicas')],
    ['', place('spec', 'replicas')],
    ['/', place('spec', 'replicas')],
    ['.spec.template.spec.containers[name="app"].resources', place(...app, 'resources', 'limits', 'cpu')],
    ['.spec.template.spec.containers[name="app"]', place(...app, 'image')],
    ['.spec.template.spec.containers[*].image', place(...app, 'image')],
    ['.spec.template.spec.containers', place(...app, 'image')],
    [
      '.spec.template.spec.containers[*].ports[containerPort=80,protocol="TCP"]',
      place(...ports, 'k:{"containerPort":80,"protocol":"TCP"}', 'name'),
    ],
    [
      '.spec.template.spec.containers[*].ports[containerPort=80]',
      place(...ports, 'k:{"containerPort":80,"protocol":"TCP"}'),
    ],
    ['.metadata.annotations.tool.example/x', place('metadata', 'annotations', 'tool.example/x')],
    ['.metadata.annotations.tool.example/x.y', place('metadata', 'annotations', 'tool.example/x.y')],
    ['.metadata.labels', place('metadata', 'labels', 'tool.example/x')],
    ['.metadata.finalizers[="example.com/a"]', place('metadata', 'finalizers', 'v:"example.com/a"')],
    ['.metadata.finalizers', place('metadata', 'finalizers', 'v:"example.com/a"')],
    ['.spec.items[1].a', place('spec', 'items', 'i:1', 'a')],
    ['/spec/replicas', place('spec', 'replicas')],
    ['/metadata/annotations/tool.example~1x', place('metadata', 'annotations', 'tool.example/x')],
    ['/data/ca.crt', place('data', 'ca.crt')],
    ['/data/0', place('data', '0')],
    ['/spec/items/1/a', place('spec', 'items', 'i:1', 'a')],
  ]
  for (const [path, at] of covered) t.equal(isBy({ paths: [path] }, at), true, path)
  const others: readonly (readonly [path: string, at: FieldPlace])[] = [
    ['.spec.replicas', place('spec', 'replicasMax')],
    ['.spec.replicas', place('spec')],
    ['.spec.replicas', place('status', 'replicas')],
    ['.spec.template.spec.containers[name="app"].resources', place(...app, 'image')],
    ['.spec.template.spec.containers[name="ap"]', place(...app, 'image')],
    ['.spec.template.spec.containers.image', place(...app, 'image')],
    ['.spec.template.spec.containers[*]', place(...app.slice(0, 4))],
    ['.spec.template.spec.containers[="app"]', place(...app, 'image')],
    [
      '.spec.template.spec.containers[*].ports[containerPort="80"]',
      place(...ports, 'k:{"containerPort":80,"protocol":"TCP"}'),
    ],
    ['.spec.template.spec.containers[*].ports[name="web"]', place(...ports, 'k:{"containerPort":80,"protocol":"TCP"}')],
    ['.metadata.annotations.tool.example/x', place('metadata', 'annotations', 'tool.example/x.y')],
    ['.metadata.annotations.tool', place('metadata', 'annotations', 'tool.example/x')],
    ['/metadata/annotations/tool.example/x', place('metadata', 'annotations', 'tool.example/x')],
    ['/spec/template/spec/containers/app', place(...app, 'image')],
    ['/spec/items/01', place('spec', 'items', 'i:1')],
    ['.spec.items[0]', place('spec', 'items', 'i:1')],
    ['.data.0', place('data', 'i:0')],
  ]
  for (const [path, at] of others) t.equal(isBy({ paths: [path] }, at), false, path)
})

t.test('an index is the item at that place in the manifest or the live object; without them any item', async (t) => {
  const image = place(...app, 'image')
  const of = (...names: string[]) => ({
    spec: { template: { spec: { containers: names.map((name) => ({ name })) } } },
  })
  for (const path of ['/spec/template/spec/containers/0/image', '.spec.template.spec.containers[0].image']) {
    t.equal(isBy({ paths: [path] }, image, { objects: [of('app', 'proxy')] }), true, path)
    t.equal(isBy({ paths: [path] }, image, { objects: [of('proxy', 'app')] }), false)
    t.equal(isBy({ paths: [path] }, image, { objects: [of('proxy', 'app'), of('app')] }), true, 'in one of them')
    t.equal(isBy({ paths: [path] }, image, { objects: [{}, null, 'x'] }), false)
    t.equal(isBy({ paths: [path] }, image), true)
  }
})

t.test('rules with an index need the object', async (t) => {
  const has = (...blocks: IgnoreBlock[]) => hasIndexes(readRules(blocks, own), deployment)
  t.equal(has({ paths: ['/spec/template/spec/containers/0/image'] }), true)
  t.equal(has({ paths: ['.spec', '.spec.template.spec.containers[0]'] }), true)
  t.equal(has({ kinds: ['Pod'], paths: ['/spec/containers/0/image'] }), false, 'of another kind')
  t.equal(
    has({ paths: ['.spec.template.spec.containers[*].image', '/spec/replicas', '.data.0'] }, { managers: ['a'] }),
    false,
  )
})

t.test('kinds: of any group, of one group, by patterns', async (t) => {
  const at = place('spec', 'replicas')
  const key = { group: 'crews.example.com', kind: 'Deployment' }
  const core = { group: '', kind: 'Secret' }
  const kinds: readonly (readonly [pattern: string, key: object, isMatch: boolean])[] = [
    ['Deployment', deployment, true],
    ['Deployment', key, true],
    ['deployment', deployment, false],
    ['apps/Deployment', deployment, true],
    ['apps/Deployment', key, false],
    ['apps/*', deployment, true],
    ['*.example.com/*', key, true],
    ['*.example.com/*', deployment, false],
    ['*/Deployment', key, true],
    ['*Set', { group: 'apps', kind: 'StatefulSet' }, true],
    ['*', core, true],
    ['/Secret', core, true],
    ['/Secret', { group: 'vault.example.com', kind: 'Secret' }, false],
    ['*/Secret', core, true],
  ]
  for (const [pattern, of, isMatch] of kinds)
    t.equal(isBy({ kinds: [pattern], paths: ['.spec'] }, at, { key: of }), isMatch, `${pattern} ${JSON.stringify(of)}`)
})

t.test('managers: by patterns; with paths both have to match; never the own manager', async (t) => {
  const at = place('spec', 'replicas')
  t.equal(isBy({ managers: ['scal*'] }, at), true)
  t.equal(isBy({ managers: ['other', 'scaler'] }, at), true)
  t.equal(isBy({ managers: ['Scaler'] }, at), false)
  t.equal(isBy({ managers: ['scaler'], paths: ['.spec'] }, at), true)
  t.equal(isBy({ managers: ['scaler'], paths: ['.metadata'] }, at), false)
  t.equal(isBy({ managers: ['other'], paths: ['.spec'] }, at), false)
  for (const rule of [{ managers: ['*'] }, { paths: ['.spec'] }, { managers: ['agentk*'], paths: [''] }])
    t.equal(isBy(rule, at, { manager: own }), false)
  t.equal(isBy({ managers: ['agentk*'] }, at, { manager: 'agentk-42-8' }), true, "another source's")
  for (const rule of [{ managers: ['*'] }, { paths: ['.spec'] }, { managers: ['before-first-apply'] }])
    t.equal(isBy(rule, at, { manager: 'before-first-apply' }), false, 'it stands for nobody')
})

t.test('the marks of the source are never left to others', async (t) => {
  for (const rule of [
    { paths: ['.metadata'] },
    { managers: ['*'] },
    { paths: ['.metadata.labels', '.metadata.annotations'] },
  ]) {
    t.equal(isBy(rule, place('metadata', 'labels', 'agent.gitlab.com/inventory')), false)
    t.equal(isBy(rule, place('metadata', 'annotations', 'config.k8s.io/owning-inventory')), false)
    t.equal(isBy(rule, place('metadata', 'annotations', 'agent.gitlab.com/digest')), false)
    t.equal(isBy(rule, place('metadata', 'annotations', 'agent.gitlab.com/other')), true)
  }
})

t.test('the rule is named as in the configuration, with the path that counts', async (t) => {
  const of = (rule: IgnoreBlock, at: FieldPlace, key = deployment) =>
    ignoringRule(at, 'scaler', readRules([{ paths: ['.other'] }, rule], own), { key })
  const replicas = place('spec', 'replicas')
  t.equal(of({ paths: ['.spec.a', '.spec.replicas'] }, replicas), '{ paths: [.spec.replicas] }')
  t.equal(of({ managers: ['scal*'] }, replicas), '{ managers: [scal*] }')
  t.equal(
    of({ kinds: ['apps/*', 'Job'], paths: ['/spec'], managers: ['a', 'scaler'] }, replicas),
    '{ kinds: [apps/*, Job], paths: [/spec], managers: [a, scaler] }',
  )
  t.equal(of({ paths: ['.metadata'] }, replicas), undefined)
  t.equal(of({ managers: Array.from({ length: 100 }, (_, i) => `scaler${i}`).concat('*') }, replicas)?.length, 200)
  const secret = { group: '', kind: 'Secret' }
  t.equal(of({ paths: ['.data.password'] }, place('data', 'password'), secret), '{ paths: [.data] }')
  t.equal(of({ paths: ['/stringData/password'] }, place('stringData', 'password'), secret), '{ paths: [/stringData] }')
  t.equal(
    of({ paths: ['.data.password'] }, place('data', 'password'), { group: '', kind: 'ConfigMap' }),
    '{ paths: [.data.password] }',
  )
})

t.test('conflicts that are left to their managers', async (t) => {
  const object = {
    metadata: { annotations: { 'tool.example/x': '1', 'tool.example/y': '1' } },
    spec: {
      replicas: 2,
      template: {
        spec: { containers: [{ name: 'app', image: 'a', args: ['x'], resources: { limits: { cpu: '1' } } }] },
      },
    },
  }
  const conflict = (field: string, manager = 'scaler', subresource = '') => ({ field, manager, subresource })
  const container = '.spec.template.spec.containers[name="app"]'
  const found = (rules: IgnoreBlock[], ...conflicts: ReturnType<typeof conflict>[]) =>
    ignoredConflicts(conflicts, readRules(rules, own), { key: deployment, object }).map((one) => one.conflict.field)
  const cpu = conflict(`${container}.resources.limits.cpu`)
  t.strictSame(found([{ paths: [`${container}.resources`] }], cpu, conflict(`${container}.image`)), [cpu.field])
  t.strictSame(found([{ paths: ['/spec/template/spec/containers/0/args'] }], conflict(`${container}.args`)), [
    `${container}.args`,
  ])
  t.strictSame(found([{ paths: [`${container}.args[0]`] }], conflict(`${container}.args`)), [], 'it is one field')
  const annotations = [
    conflict('.metadata.annotations.tool.example/x'),
    conflict('.metadata.annotations.tool.example/y'),
  ]
  t.strictSame(found([{ paths: ['.metadata.annotations.tool.example/x'] }], ...annotations), [annotations[0]?.field])
  const scaled = conflict('.spec.replicas', 'kube-controller-manager', 'scale')
  t.strictSame(found([{ managers: ['kube-*'] }], scaled, cpu), ['.spec.replicas'])
  t.strictSame(found([], scaled), [])
  t.strictSame(found([{ managers: ['*'] }], conflict('.spec.gone'), conflict(''), conflict('.spec', own)), [])
})

t.test('a conflict that may be at two fields is left to nobody', async (t) => {
  const key = { group: 'example.com', kind: 'Thing' }
  const object = { spec: { a: { b: 1 }, 'a.b': 2, c: 3 } }
  const conflicts = [
    { field: '.spec.a.b', manager: 'm', subresource: '' },
    { field: '.spec.c', manager: 'm', subresource: '' },
  ]
  const found = ignoredConflicts(conflicts, readRules([{ managers: ['m'] }], own), { key, object })
  t.strictSame(
    found.map(({ conflict }) => conflict.field),
    ['.spec.c'],
  )
})

t.test('values left out are named, those of a Secret without their keys', async (t) => {
  const found = (kind: string) => {
    const key = { group: '', kind }
    const object = { data: { a: '1', b: '2' }, metadata: { labels: { x: 'y' } } }
    const conflicts = ['.data.a', '.data.b', '.metadata.labels.x'].map((field) => ({
      field,
      manager: 'm',
      subresource: '',
    }))
    return leftOutOf(ignoredConflicts(conflicts, readRules([{ managers: ['m'] }], own), { key, object }), key)
  }
  const rule = '{ managers: [m] }'
  t.strictSame(found('ConfigMap'), [
    { path: '.data.a', manager: 'm', rule },
    { path: '.data.b', manager: 'm', rule },
    { path: '.metadata.labels.x', manager: 'm', rule },
  ])
  t.strictSame(found('Secret'), [
    { path: '.data', manager: 'm', rule },
    { path: '.metadata.labels.x', manager: 'm', rule },
  ])
  const many = Array.from({ length: 300 }, (_, i) => `k${i}`)
  const conflicts = many.map((name) => ({ field: `.data.${name}`, manager: 'm', subresource: '' }))
  const object = { data: Object.fromEntries(many.map((name) => [name, ''])) }
  const key = { group: '', kind: 'ConfigMap' }
  const all = ignoredConflicts(conflicts, readRules([{ managers: ['m'] }], own), { key, object })
  t.equal(all.length, 300)
  t.equal(leftOutOf(all, key).length, 100)
})

const entry = (manager: string, fieldsV1: object): ManagedEntry =>
  entriesOf({ metadata: { managedFields: [{ manager, fieldsV1 }] } })[0] as ManagedEntry

t.test('fields of an entry that rules leave to its manager', async (t) => {
  const fields = {
    'f:metadata': {
      'f:annotations': { '.': leaf, 'f:tool.example/x': leaf, 'f:agent.gitlab.com/digest': leaf },
      'f:finalizers': { 'v:"a"': leaf, 'v:"b"': leaf },
    },
    'f:spec': {
      'f:replicas': leaf,
      'f:template': {
        'f:spec': {
          'f:containers': {
            'k:{"name":"app"}': {
              '.': leaf,
              'f:image': leaf,
              'f:resources': { '.': leaf, 'f:limits': { 'f:cpu': leaf } },
            },
            'k:{"name":"proxy"}': { '.': leaf, 'f:image': leaf },
          },
        },
      },
    },
    'x:y': leaf,
    'k:{': leaf,
  }
  const of = (...paths: string[]) =>
    ignoredFields(readRules([{ paths }], own), { key: deployment })(entry('scaler', fields))
  const containers = (inner: object) => ({
    'f:spec': { 'f:template': { 'f:spec': { 'f:containers': inner } } },
  })
  t.strictSame(of('.spec.replicas'), { 'f:spec': { 'f:replicas': leaf } })
  t.strictSame(
    of('.spec.template.spec.containers[name="app"].resources'),
    containers({ 'k:{"name":"app"}': { 'f:resources': { '.': leaf, 'f:limits': { 'f:cpu': leaf } } } }),
  )
  t.strictSame(
    of('.spec.template.spec.containers[*].image', '.nothing'),
    containers({ 'k:{"name":"app"}': { 'f:image': leaf }, 'k:{"name":"proxy"}': { 'f:image': leaf } }),
  )
  t.strictSame(of('.metadata.finalizers[="b"]'), { 'f:metadata': { 'f:finalizers': { 'v:"b"': leaf } } })
  t.strictSame(
    of('.metadata.annotations'),
    { 'f:metadata': { 'f:annotations': { '.': leaf, 'f:tool.example/x': leaf } } },
    'without the marks',
  )
  t.strictSame(of('.status'), {})
  const all = ignoredFields(readRules([{ managers: ['scaler'] }], own), { key: deployment })
  t.match(all(entry('scaler', fields)), { 'f:spec': fields['f:spec'], 'x:y': leaf })
  t.strictSame(all(entry('other', fields)), {})
  t.strictSame(all(entry(own, fields)), {})
})

t.test('a path that a newer agentk has kept, and this one cannot read, covers nothing', async (t) => {
  t.equal(isBy({ paths: ['$.spec'] }, place('spec', 'replicas')), false)
  t.equal(isBy({ paths: ['$.spec'], managers: ['*'] }, place('spec', 'replicas')), false)
})

t.test('a rule with an index takes no quadratic work in a long list with an entry for each item', async (t) => {
  const count = 20_000
  const items = Array.from({ length: count }, (_, i) => [`k:{"name":${i}}`, { 'f:v': {} }])
  const fieldsV1 = { 'f:list': Object.fromEntries(items) }
  const live = { list: Array.from({ length: count }, (_, name) => ({ name, v: 1 })) }
  const rules = readRules([{ paths: ['/list/19999/v'] }], 'm')
  const key = { group: '', kind: 'Thing', namespace: '', name: 'a' }
  const began = process.cpuUsage()
  const found = ignoredFields(rules, { key, objects: [live] })({ manager: 'a', fieldsV1 })
  const { user } = process.cpuUsage(began)
  t.strictSame(found, { 'f:list': { 'k:{"name":19999}': { 'f:v': {} } } })
  t.ok(user / 1000 < patience(3000), `${user / 1000} ms`)
})

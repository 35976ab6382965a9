import t from 'tap'
import { Objects } from '../../../../dev/api-double/objects.ts'
import { named, seed } from '../../../../dev/api-double/seed.ts'
import { Store } from '../../../../dev/api-double/store.ts'

const merge = 'application/merge-patch+json'

function setUp() {
  const store = new Store()
  seed(store)
  const objects = new Objects(store)
  const target = (name?: string, query = '') => ({
    resource: named('configmaps'),
    namespace: 'demo',
    name,
    subresource: undefined,
    query: new URLSearchParams(query),
  })
  const body = (name: string, more: Record<string, unknown> = {}) => ({
    kind: 'ConfigMap',
    apiVersion: 'v1',
    metadata: { name },
    ...more,
  })
  const create = (name: string, more: Record<string, unknown> = {}, query = '') =>
    objects.create({ target: target(undefined, query), contentType: 'application/json', body: body(name, more) })
  return { store, objects, target, body, create }
}

t.test('creates, with a made up name if asked, and only where there is a namespace', async (t) => {
  const { objects, target, body, create, store } = setUp()
  t.match(create('a', { data: { x: '1' } }), { metadata: { name: 'a', namespace: 'demo' }, data: { x: '1' } })
  const generated = objects.create({ target: target(), contentType: '', body: { metadata: { generateName: 'gen-' } } })
  t.match(generated.metadata.name, /^gen-[0-9a-f]{5}$/)
  const nowhere = { ...target(), namespace: 'nowhere' }
  t.throws(() => objects.create({ target: nowhere, contentType: '', body: body('a') }), { code: 404 })
  const version = store.version
  t.equal(create('dry', {}, 'dryRun=All').metadata.name, 'dry')
  t.equal(store.version, version, 'a dry run changes nothing')
})

t.test('makes up another name if that is taken', async (t) => {
  const { store, target } = setUp()
  const suffixes = ['a', 'a', 'b']
  const objects = new Objects(store, () => suffixes.shift() ?? '')
  const create = () =>
    objects.create({ target: target(), contentType: '', body: { metadata: { generateName: 'gen-' } } }).metadata.name
  t.same([create(), create()], ['gen-a', 'gen-b'])
})

t.test('refuses objects that make no sense', async (t) => {
  const { objects, target, create } = setUp()
  const post = (body: unknown) => () => objects.create({ target: target(), contentType: '', body })
  for (const body of [undefined, null, 'text', [], {}, { metadata: [] }, { metadata: { name: 1 } }]) {
    t.throws(post(body), { code: 400 }, JSON.stringify(body))
  }
  t.throws(post({ kind: 'Pod', apiVersion: 'v1', metadata: { name: 'a' } }), { code: 400 })
  t.throws(post({ metadata: { name: 'a', namespace: 'other' } }), { code: 400 })
  for (const name of ['', 'A', '-a', 'a_b', 'x'.repeat(254)])
    t.throws(post({ metadata: { name } }), { code: 422 }, name)
  create('a')
  t.throws(() => create('a'), { code: 409, reason: 'AlreadyExists' })
})

t.test('patches by merging; replaces; refuses other patches', async (t) => {
  const { objects, target, body, create } = setUp()
  create('a', { data: { x: '1', y: '2' } })
  const patch = (contentType: string, change: unknown) =>
    objects.patch({ target: target('a'), contentType, body: change })
  t.same(patch(merge, { data: { x: null, z: '3' } }).data, { y: '2', z: '3' })
  const strategic = 'application/strategic-merge-patch+json; charset=utf-8'
  t.same(patch(strategic, { data: { '$setElementOrder/x': [], y: 'new' } }).data, { y: 'new', z: '3' })
  t.throws(() => patch('application/json-patch+json', []), { code: 415 })
  t.throws(() => patch(merge, { metadata: { name: 'b' } }), { code: 400 })
  t.throws(() => patch(merge, { metadata: { resourceVersion: '1' } }), { code: 409 })
  t.throws(() => patch(merge, 'text'), { code: 400 })
  t.same(objects.replace({ target: target('a'), contentType: '', body: body('a', { data: { n: '1' } }) }).data, {
    n: '1',
  })
  t.throws(() => objects.replace({ target: target('b'), contentType: '', body: body('a') }), { code: 400 })
})

t.test('applies what one manager wants, and refuses what only an API server knows', async (t) => {
  const { objects, target, body, create, store } = setUp()
  const apply = (name: string, object: Record<string, unknown>, query = 'fieldManager=m') =>
    objects.patch({ target: target(name, query), contentType: 'application/apply-patch+yaml', body: object })
  const metadata = { name: 'a', labels: { x: '1' }, resourceVersion: '1' }
  const made = apply('a', body('a', { metadata, data: { x: '1', y: '1' } }))
  t.match(made, { data: { x: '1', y: '1' }, metadata: { namespace: 'demo', labels: { x: '1' } } })
  const fieldsV1 = { 'f:metadata': { 'f:labels': { 'f:x': {} } }, 'f:data': { 'f:x': {}, 'f:y': {} } }
  t.strictSame(made.metadata.managedFields, [
    { manager: 'm', operation: 'Apply', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1 },
  ])
  objects.patch({ target: target('a'), contentType: merge, body: { metadata: { annotations: { own: 'b' } } } })
  t.throws(() => apply('a', body('a', { metadata })), { code: 409 }, 'that was another one')
  const changed = apply('a', body('a', { data: { y: '2' } }))
  t.strictSame(changed.data, { y: '2' }, 'what left goes')
  t.match(changed.metadata, { labels: undefined, annotations: { own: 'b' } }, "what is others' stays")
  t.equal(apply('a', body('a', { data: { y: '2' } })), changed, 'the same again changes nothing')
  const { version } = store
  t.throws(() => apply('a', body('a'), 'fieldManager=other'), { code: 422, message: /one field manager.*is m's/ })
  t.match(apply('a', body('a', { data: { y: '3' } }), 'fieldManager=m&dryRun=All').data, { y: '3' })
  t.match(apply('c', body('c'), 'fieldManager=m&dryRun=All').metadata, { name: 'c' })
  t.notOk(objects.has(target('c')))
  t.throws(() => apply('a', body('a'), ''), { code: 400 })
  t.throws(() => apply('b', body('a')), { code: 400 })
  create('b')
  t.throws(() => apply('b', body('b')), { code: 422, message: /has not been made by an apply/ })
  t.equal(store.version, version + 1)
})

t.test('namespaces come, and go with what is in them', async (t) => {
  const { objects, target, create, store } = setUp()
  const namespace = { ...target('shop'), resource: named('namespaces'), namespace: undefined }
  const made = objects.create({
    target: { ...namespace, name: undefined },
    contentType: '',
    body: { metadata: { name: 'shop' } },
  })
  t.match(made, { status: { phase: 'Active' }, metadata: { labels: { 'kubernetes.io/metadata.name': 'shop' } } })
  objects.create({ target: { ...target(), namespace: 'shop' }, contentType: '', body: { metadata: { name: 'a' } } })
  create('a')
  objects.delete({ target: namespace, contentType: '', body: undefined })
  t.same(store.list(named('configmaps'), 'shop'), [])
  t.ok(objects.has(target('a')), 'others stay')
})

t.test('a patch does not touch prototypes', async (t) => {
  const { objects, target, create } = setUp()
  create('a')
  const change = JSON.parse('{"__proto__": {"polluted": "yes"}, "data": {"constructor": "plain"}}')
  const merged = objects.patch({ target: target('a'), contentType: merge, body: change })
  t.equal(({} as Record<string, unknown>).polluted, undefined)
  t.equal(merged.polluted, undefined)
})

t.test('deletes, if the preconditions hold', async (t) => {
  const { objects, target, create } = setUp()
  const { uid } = create('a').metadata
  const remove = (body?: unknown, query = '') => objects.delete({ target: target('a', query), contentType: '', body })
  t.throws(() => remove({ preconditions: { uid: 'other' } }), { code: 409 })
  t.match(remove(undefined, 'dryRun=All'), { status: 'Success' })
  t.match(remove({ preconditions: { uid } }), { status: 'Success', details: { name: 'a', kind: 'configmaps', uid } })
  t.throws(() => remove(), { code: 404 })
})

t.test('a write gives what it changes of an applied object to its manager, and an apply takes it back', async (t) => {
  const { objects, target, body } = setUp()
  const apply = (data: object) =>
    objects.patch({
      target: target('a', 'fieldManager=m'),
      contentType: 'application/apply-patch+yaml',
      body: body('a', { data }),
    })
  const edit = (change: unknown) =>
    objects.patch({ target: target('a', 'fieldManager=ed'), contentType: merge, body: change })
  const owners = ({ metadata }: ReturnType<typeof edit>) =>
    (metadata.managedFields as { manager: string; operation: string; fieldsV1: object }[]).map(
      ({ manager, operation, fieldsV1 }) => [manager, operation, fieldsV1],
    )
  apply({ x: '1', y: '1' })
  t.strictSame(owners(edit({ data: { x: '9', z: '1' } })), [
    ['m', 'Apply', { 'f:data': { 'f:y': {} } }],
    ['ed', 'Update', { 'f:data': { 'f:x': {}, 'f:z': {} } }],
  ])
  t.strictSame(owners(edit({ data: { y: null } })), [
    ['m', 'Apply', {}],
    ['ed', 'Update', { 'f:data': { 'f:x': {}, 'f:z': {} } }],
  ])
  const again = apply({ x: '1', y: '1' })
  t.strictSame(again.data, { x: '1', y: '1', z: '1' })
  t.strictSame(owners(again), [
    ['m', 'Apply', { 'f:data': { 'f:x': {}, 'f:y': {} } }],
    ['ed', 'Update', { 'f:data': { 'f:z': {} } }],
  ])
  const { managedFields: _, ...metadata } = again.metadata
  t.notOk(
    objects.patch({ target: target('a'), contentType: merge, body: { metadata: { managedFields: null } } }).metadata
      .managedFields,
    String(metadata.name),
  )
})

import t from 'tap'
import type { KubeObject } from '../../../../dev/api-double/kube-object.ts'
import { named } from '../../../../dev/api-double/seed.ts'
import { Store, type StoreEvent } from '../../../../dev/api-double/store.ts'

const configMaps = named('configmaps')
const key = (name: string) => ({ resource: configMaps, namespace: 'demo', name })
const map = (data: Record<string, string>, resourceVersion?: string): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'ignored: the key names it', ...(resourceVersion ? { resourceVersion } : {}) },
  data,
})
const epoch = Date.UTC(2026, 0, 2, 3, 4, 5, 678)

t.test('creates, replaces and deletes under one growing resource version', async (t) => {
  const store = new Store({ now: () => epoch })
  const first = store.create(key('a'), map({ x: '1' }))
  t.match(first.metadata, {
    name: 'a',
    namespace: 'demo',
    creationTimestamp: '2026-01-02T03:04:05Z',
    uid: /^[0-9a-f-]{36}$/,
  })
  const second = store.replace(key('a'), map({ x: '2' }))
  t.equal(second.metadata.uid, first.metadata.uid)
  t.equal(second.metadata.creationTimestamp, first.metadata.creationTimestamp)
  t.ok(Number(second.metadata.resourceVersion) > Number(first.metadata.resourceVersion))
  t.same(first.data, { x: '1' }, 'an object that was handed out does not change')
  t.equal(String(store.version), second.metadata.resourceVersion)
  store.delete(key('a'))
  t.throws(() => store.get(key('a')), { code: 404, message: 'configmaps "a" not found' })
})

t.test('refuses what is there already, what changed meanwhile, and one object too many', async (t) => {
  const store = new Store({ maxObjects: 2 })
  const first = store.create(key('a'), map({}))
  t.throws(() => store.create(key('a'), map({})), { code: 409, reason: 'AlreadyExists' })
  store.replace(key('a'), map({ x: '1' }, first.metadata.resourceVersion))
  t.throws(() => store.replace(key('a'), map({ x: '2' }, first.metadata.resourceVersion)), {
    code: 409,
    reason: 'Conflict',
  })
  store.create(key('b'), map({}))
  t.throws(() => store.create(key('c'), map({})), { code: 429 })
  t.throws(() => store.delete(key('c')), { code: 404 })
})

t.test('lists by resource and namespace, sorted', async (t) => {
  const store = new Store()
  store.create({ ...key('b'), namespace: 'x' }, map({}))
  store.create({ ...key('a'), namespace: 'y' }, map({}))
  store.create({ ...key('a'), namespace: 'x' }, map({}))
  store.create({ resource: named('namespaces'), name: 'x' }, map({}))
  const names = (namespace?: string) =>
    store.list(configMaps, namespace).map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)
  t.same(names(), ['x/a', 'x/b', 'y/a'])
  t.same(names('x'), ['x/a', 'x/b'])
})

t.test('tells events, and keeps the latest for those who come late', async (t) => {
  const store = new Store({ maxEvents: 3 })
  const seen: StoreEvent[] = []
  const stop = store.onEvent((event) => seen.push(event))
  const start = store.version
  store.create(key('a'), map({ x: '1' }))
  store.replace(key('a'), map({ x: '2' }))
  store.delete(key('a'))
  t.same(
    seen.map(({ type, object, previous }) => [type, object.data, previous?.data]),
    [
      ['ADDED', { x: '1' }, undefined],
      ['MODIFIED', { x: '2' }, { x: '1' }],
      ['DELETED', { x: '2' }, { x: '2' }],
    ],
  )
  t.same(store.eventsAfter(start), seen)
  t.same(store.eventsAfter(start + 2), seen.slice(2))
  stop()
  store.create(key('b'), map({}))
  t.equal(seen.length, 3, 'no event after the listener left')
  t.throws(() => store.eventsAfter(start), { code: 410, reason: 'Expired' })
  t.equal(store.eventsAfter(start + 1).length, 3)
})

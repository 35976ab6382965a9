import t from 'tap'
import { at, entryAt, isBeingDeleted, kindOf, listAt, numberAt, textAt } from '../../../src/kubernetes/object.ts'

t.test('a member is read by its path, whatever stands there', async (t) => {
  const object = { spec: { replicas: 2, name: 'api', parts: [{ a: 1 }, null, 'b', { c: 3 }], none: null } }
  t.equal(at(object, 'spec.replicas'), 2)
  t.equal(at(object, 'spec.none'), null)
  t.equal(at(object, 'spec.none.more'), undefined)
  t.equal(at(object, 'spec.name.length'), undefined, 'a text has no members')
  t.equal(at(object, 'spec.parts.0.a'), 1)
  t.equal(at(undefined, 'spec'), undefined)
  t.equal(at(object, 'constructor.name'), undefined, 'what is inherited is not of the object')
  t.equal(textAt(object, 'spec.name'), 'api')
  t.equal(textAt(object, 'spec.replicas'), '')
  t.equal(numberAt(object, 'spec.replicas'), 2)
  t.equal(numberAt(object, 'spec.name'), undefined)
  t.strictSame(listAt(object, 'spec.parts'), [{ a: 1 }, { c: 3 }])
  t.strictSame(listAt(object, 'spec'), [])
})

t.test('more paths than are kept are read alike', async (t) => {
  for (let i = 0; i < 1500; i++) t.equal(numberAt({ a: { [`n${i}`]: i } }, `a.n${i}`), i)
  t.equal(numberAt({ a: { n1400: 1 } }, 'a.n1400'), 1)
})

t.test('names of annotations may hold dots', async (t) => {
  const object = { metadata: { annotations: { 'agent.gitlab.com/pause': 'true', n: 1 } } }
  t.equal(entryAt(object, 'metadata.annotations', 'agent.gitlab.com/pause'), 'true')
  t.equal(entryAt(object, 'metadata.annotations', 'n'), '')
  t.equal(entryAt(object, 'metadata.annotations', 'toString'), '')
  t.equal(entryAt(object, 'metadata.labels', 'app'), '')
})

t.test('a kind is written without its version, the core group without its name', async (t) => {
  t.equal(kindOf({ apiVersion: 'apps/v1', kind: 'Deployment' }), 'apps/Deployment')
  t.equal(kindOf({ apiVersion: 'v1', kind: 'Pod' }), 'Pod')
  t.equal(kindOf({}), '')
  t.equal(kindOf({ apiVersion: 'apps/v1' }), '')
  t.equal(kindOf({ apiVersion: 1, kind: 'Pod' }), 'Pod')
  t.equal(kindOf(undefined), '')
})

t.test('an object is being deleted from the time that it names', async (t) => {
  t.equal(isBeingDeleted({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }), true)
  t.equal(isBeingDeleted({ metadata: {} }), false)
})

import t from 'tap'
import {
  cut,
  maxLabels,
  maxLabelText,
  maxOwners,
  maxOwnerText,
} from '../../../../../../src/agentk/modules/views/projection/bounds.ts'
import { metadataOf } from '../../../../../../src/agentk/modules/views/projection/metadata.ts'

const of = (metadata: object) => metadataOf({ metadata: { uid: 'u', name: 'n', ...metadata } })
const owner = (uid: string, more: object = {}) => ({
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  name: 'web',
  uid,
  ...more,
})

t.test('what every object has', async (t) => {
  const found = metadataOf({
    metadata: {
      uid: '6f1c',
      name: 'web-7d4b9-x2x',
      namespace: 'shop',
      creationTimestamp: '2026-01-02T03:04:05Z',
      labels: { app: 'web', 'pod-template-hash': '7d4b9' },
      ownerReferences: [owner('1', { controller: true })],
    },
  })
  t.same(found, {
    uid: '6f1c',
    name: 'web-7d4b9-x2x',
    namespace: 'shop',
    labels: new Map([
      ['app', 'web'],
      ['pod-template-hash', '7d4b9'],
    ]),
    owner: { uid: '1', kind: 'apps/ReplicaSet', name: 'web' },
    otherOwners: [],
    created: Date.parse('2026-01-02T03:04:05Z'),
    generation: 0,
  })
})

t.test('the controller owns it, else the first; the others are told', async (t) => {
  const [one, two] = [owner('1'), owner('2', { controller: true, apiVersion: 'v1', kind: 'Node' })]
  t.match(of({ ownerReferences: [one, two] }), { owner: { uid: '2', kind: 'Node' }, otherOwners: [{ uid: '1' }] })
  t.match(of({ ownerReferences: [one, { ...two, controller: 'true' }] }), { owner: { uid: '1' } })
  const many = Array.from({ length: 500 }, (_, i) => owner(String(i)))
  t.equal(of({ ownerReferences: many })?.otherOwners.length, maxOwners)
  const long = many.map((one, i) => ({ ...one, uid: `${i}`.padEnd(250, 'x'), name: 'n'.repeat(250) }))
  const texts = of({ ownerReferences: long })?.otherOwners.map(({ uid, kind, name }) => uid + kind + name) ?? []
  t.ok(texts.length > 0 && texts.join('').length < maxOwnerText)
})

t.test('what cannot be an object is none', async (t) => {
  for (const object of [{}, { metadata: null }, { metadata: 'x' }, { metadata: { uid: 1, name: 'n' } }]) {
    t.equal(metadataOf(object), undefined)
  }
  t.equal(of({ uid: '' }), undefined)
  t.equal(of({ name: '' }), undefined)
  t.equal(of({ name: 'x'.repeat(300) }), undefined)
})

t.test('what is of another type is left out', async (t) => {
  const odd = of({ namespace: 7, labels: ['a'], ownerReferences: { uid: 'x' }, creationTimestamp: 'yesterday' })
  t.match(odd, { namespace: '', owner: undefined, otherOwners: [], created: 0 })
  const labels = of({ labels: { a: 1, b: 'two', c: null }, ownerReferences: [null, 'x', { uid: 'u' }, owner('1')] })
  t.same(labels?.labels, new Map([['b', 'two']]))
  t.match(labels?.owner, { uid: '1' })
  t.equal(of({ name: 'ünïcode "<b>\u0000' })?.name, 'ünïcode "<b>\u0000', 'names pass as text')
})

t.test('labels are kept as far as they fit', async (t) => {
  const thousand = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`label-${i}`, 'x']))
  t.equal(of({ labels: thousand })?.labels.size, maxLabels)
  const large = { first: 'x', large: 'x'.repeat(maxLabelText), last: 'x' }
  t.same([...(of({ labels: large })?.labels.keys() ?? [])], ['first', 'last'])
})

t.test('a cut text ends in whole characters', async (t) => {
  t.equal(cut('short', 8), 'short')
  t.equal(cut('x'.repeat(9), 8), 'x'.repeat(8))
  t.ok(cut(`${'x'.repeat(7)}😀`, 8).isWellFormed())
})

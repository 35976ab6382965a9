import t from 'tap'
import { addedTaken } from '../../../../../../src/agentk/modules/gitops/live/added-fields.ts'
import { withDisowned } from '../../../../../../src/agentk/modules/gitops/live/disowned-fields.ts'
import {
  entriesOf,
  type FieldSet,
  fieldsHash,
  type IgnoredOf,
  leftToOthers,
  relieved,
  scaledPath,
  takenOver,
  union,
  unionOf,
  without,
  withoutReplicas,
} from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { patience } from '../../../../../support/slowness.ts'

const leaf = {}
const entry = (manager: string, fieldsV1: object, more: object = {}) => ({
  manager,
  operation: 'Update',
  apiVersion: 'v1',
  time: '2026-06-01T00:00:00Z',
  fieldsType: 'FieldsV1',
  fieldsV1,
  ...more,
})
const apply = { operation: 'Apply' }
const entries = (...managedFields: object[]) => entriesOf({ metadata: { managedFields } })

t.test('a forged entry of 9,999 levels has no fields, and ends nothing', async (t) => {
  const deep = Array.from({ length: 9_999 }).reduce<object>((inner) => ({ 'f:x': inner }), leaf)
  const [forged, honest] = entries(entry('agentk-42-7', deep, apply), entry('kubectl', { 'f:a': leaf }))
  t.strictSame(forged?.fieldsV1, {})
  t.equal(fieldsHash(forged?.fieldsV1 ?? (deep as never)), fieldsHash({}))
  t.strictSame(honest?.fieldsV1, { 'f:a': leaf })
})

t.test('a union has what either has, also the thing itself', async (t) => {
  const one = { 'f:a': { 'f:b': leaf }, 'f:x': leaf }
  const other = { 'f:a': { '.': leaf, 'f:c': leaf }, 'f:y': leaf }
  t.strictSame(union(one, other), {
    'f:a': { '.': leaf, 'f:b': leaf, 'f:c': leaf },
    'f:x': leaf,
    'f:y': leaf,
  })
  t.strictSame(union({ 'f:a': leaf }, { 'f:a': { 'f:b': leaf } }), { 'f:a': { '.': leaf, 'f:b': leaf } })
})

t.test('a union of many is that of one after another', async (t) => {
  const random = Seeded.for(t)
  const set = (depth: number): FieldSet => {
    const names = random.list(3, () => random.pick(['.', 'f:a', 'f:b', 'k:{"name":"x"}', '__proto__', 'constructor']))
    return Object.fromEntries(names.map((name) => [name, name === '.' || depth === 0 ? leaf : set(depth - 1)]))
  }
  for (let i = 0; i < 200; i++) {
    const sets = random.list(9, () => set(3))
    const expected = sets.reduce((one, other) => union(one, other), {})
    t.equal(fieldsHash(unionOf(sets)), fieldsHash(expected), JSON.stringify(sets))
  }
  t.strictSame(unionOf([]), {})
})

t.test('thousands of forged entries take no quadratic work', async (t) => {
  const forged = Array.from({ length: 2000 }, (_, i) => entry(`kubectl-${i}`, { 'f:data': { [`f:k${i}`]: leaf } }))
  const own = entry('m', { 'f:data': { 'f:a': leaf } }, apply)
  const all = entries(own, ...forged)
  const began = process.cpuUsage()
  const others = leftToOthers(all, 'm', ({ fieldsV1 }) => fieldsV1)
  t.equal(Object.keys(others['f:data'] ?? {}).length, 2000)
  const from = new Set(forged.map(({ manager }) => manager))
  t.equal(takenOver(all, { manager: 'm', from })?.length, 1)
  const isAdder = () => true
  t.equal(addedTaken(all, { manager: 'm', isAdder, ignoredOf: () => ({}) })?.length, 1)
  t.equal(withDisowned({}, all, { manager: 'm', places: ['data.a', 'data.b'] })?.entries.length, 1)
  const { user } = process.cpuUsage(began)
  t.ok(user / 1000 < patience(4000), `${user / 1000} ms`)
})

t.test('a difference leaves what the other lacks, also the thing itself', async (t) => {
  const all = { 'f:a': { '.': leaf, 'f:b': leaf, 'f:c': leaf }, 'f:x': leaf }
  t.strictSame(without(all, { 'f:a': { 'f:b': leaf }, 'f:x': leaf }), { 'f:a': { '.': leaf, 'f:c': leaf } })
  t.strictSame(without(all, { 'f:a': { '.': leaf, 'f:b': leaf, 'f:c': leaf } }), { 'f:x': leaf })
  t.strictSame(without({ 'f:a': { '.': leaf, 'f:b': leaf } }, { 'f:a': { 'f:b': leaf } }), { 'f:a': leaf })
  t.strictSame(without(all, all), {})
  t.strictSame(without(all, {}), all)
})

t.test('a hash does not depend on the order of names', async (t) => {
  t.equal(fieldsHash({ 'f:a': leaf, 'f:b': leaf }), fieldsHash({ 'f:b': leaf, 'f:a': leaf }))
  t.not(fieldsHash({ 'f:a': leaf }), fieldsHash({ 'f:b': leaf }))
  t.not(fieldsHash({ 'f:a': { 'f:b': leaf } }), fieldsHash({ 'f:a': leaf, 'f:b': leaf }))
})

t.test('taken over: what predecessors own of the object itself', async (t) => {
  const from = new Set(['agentk', 'helm'])
  const scale = entry('agentk', { 'f:spec': { 'f:replicas': leaf } }, { subresource: 'scale' })
  const other = entry('kubectl-edit', { 'f:z': leaf })
  const own = entry('agentk-42-7', { 'f:a': leaf }, { ...apply, apiVersion: 'v2' })
  const all = entries(own, entry('agentk', { 'f:b': leaf }, apply), entry('helm', { 'f:c': leaf }), scale, other)
  t.strictSame(takenOver(all, { manager: 'agentk-42-7', from }), [
    scale,
    other,
    entry('agentk-42-7', { 'f:a': leaf, 'f:b': leaf, 'f:c': leaf }, { ...apply, apiVersion: 'v2' }),
  ])
  const first = entries(entry('helm', { 'f:c': leaf }))
  t.strictSame(takenOver(first, { manager: 'agentk-42-7', from }), [entry('agentk-42-7', { 'f:c': leaf }, apply)])
  t.equal(takenOver(entries(own, scale, other), { manager: 'agentk-42-7', from }), undefined)
})

const replicas = { 'f:spec': { 'f:replicas': leaf } }
/** All of the manager `scaler`, and the replicas of any other. */
const ignoredOf: IgnoredOf = ({ manager, fieldsV1 }) => {
  if (manager === 'scaler') return fieldsV1
  return manager !== 'm' && fieldsV1['f:spec']?.['f:replicas'] ? replicas : {}
}

t.test('ignored fields of predecessors are not taken over', async (t) => {
  const from = new Set(['helm', 'scaler'])
  const helm = entry('helm', { 'f:spec': { '.': leaf, 'f:replicas': leaf, 'f:paused': leaf } })
  const scaler = entry('scaler', { 'f:spec': { 'f:image': leaf } }, apply)
  t.strictSame(takenOver(entries(helm, scaler), { manager: 'm', from, ignoredOf }), [
    entry('helm', replicas),
    scaler,
    entry('m', { 'f:spec': { '.': leaf, 'f:paused': leaf } }, apply),
  ])
  t.equal(takenOver(entries(entry('helm', replicas), scaler), { manager: 'm', from, ignoredOf }), undefined)
  t.strictSame(takenOver(entries(entry('helm', {})), { manager: 'm', from, ignoredOf }), [entry('m', {}, apply)])
})

t.test('ignored fields that others own, and the manager does not', async (t) => {
  const own = entry('m', { 'f:spec': { 'f:a': leaf, 'f:shared': leaf } }, apply)
  const scaler = entry('scaler', { 'f:spec': { 'f:b': leaf, 'f:shared': leaf }, 'f:status': { 'f:c': leaf } })
  const scale = entry('kube-controller-manager', replicas, { subresource: 'scale' })
  t.strictSame(leftToOthers(entries(own, scaler, scale, entry('ed', { 'f:x': leaf })), 'm', ignoredOf), {
    'f:spec': { 'f:b': leaf, 'f:replicas': leaf },
  })
  t.strictSame(leftToOthers(entries(own), 'm', ignoredOf), {})
  t.strictSame(leftToOthers(entries(scaler), 'm', ignoredOf), { 'f:spec': { 'f:b': leaf, 'f:shared': leaf } })
})

t.test('before-first-apply loses what is ours, and no more', async (t) => {
  const own = entry('m', { 'f:a': leaf }, apply)
  const before = entry('before-first-apply', { 'f:a': leaf, 'f:b': leaf })
  t.strictSame(relieved(entries(own, before), 'm'), [own, entry('before-first-apply', { 'f:b': leaf })])
  t.strictSame(relieved(entries(own, entry('before-first-apply', { 'f:a': leaf })), 'm'), [own])
  t.equal(relieved(entries(own, entry('before-first-apply', { 'f:b': leaf })), 'm'), undefined)
  t.equal(relieved(entries(before), 'm'), undefined)
})

t.test('managedFields of any shape are read', async (t) => {
  const fieldsOf = (fieldsV1: unknown) =>
    entriesOf({ metadata: { managedFields: [{ manager: 'm', fieldsV1 }] } })[0]?.fieldsV1
  for (const none of [undefined, null, 7, 'x', []]) t.strictSame(fieldsOf(none), {}, JSON.stringify(none))
  for (const odd of [null, 7, 'x', [], [7]]) {
    t.strictSame(fieldsOf({ 'f:a': odd, 'f:b': { 'f:c': odd } }), { 'f:a': leaf, 'f:b': { 'f:c': leaf } })
  }
  t.strictSame(entriesOf({}), [])
  t.strictSame(entriesOf({ metadata: { managedFields: [null, 'x', { manager: 'm' }] } }), [
    { manager: 'm', fieldsV1: {} },
  ])
})

t.test('where a number was scaled, and an entry without it', async (t) => {
  const fields = { 'f:spec': { 'f:workers': { 'f:size': leaf } } }
  const own = entry('m', { 'f:spec': { 'f:a': leaf, 'f:workers': { 'f:size': leaf } } }, apply)
  const all = entries(own, entry('k', fields, { subresource: 'scale' }))
  t.equal(scaledPath(all), 'spec.workers.size')
  t.equal(scaledPath(entries(own, entry('k', {}, { subresource: 'scale' }))), undefined)
  t.equal(scaledPath(entries(own)), undefined)
  t.strictSame(withoutReplicas(entries(own), 'm', 'spec.workers.size'), [
    entry('m', { 'f:spec': { 'f:a': leaf } }, apply),
  ])
  const around = entry('m', { 'f:spec': { 'f:workers': { '.': leaf, 'f:size': leaf } } }, apply)
  t.strictSame(
    withoutReplicas(entries(around), 'm', 'spec.workers.size'),
    [entry('m', {}, apply)],
    'nor what is around it',
  )
  t.equal(withoutReplicas(entries(own), 'm', 'spec.replicas'), undefined)
})

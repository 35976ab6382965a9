import t from 'tap'
import { withDisowned } from '../../../../../../src/agentk/modules/gitops/live/disowned-fields.ts'
import { entriesOf, type IgnoredOf } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { patience } from '../../../../../support/slowness.ts'

const leaf = {}
const strategy = (...names: string[]) => ({
  'f:spec': { 'f:strategy': { 'f:rollingUpdate': Object.fromEntries(names.map((name) => [`f:${name}`, leaf])) } },
})
const entry = (manager: string, fieldsV1: object, operation = 'Update') => ({ manager, operation, fieldsV1 })
const object = { spec: { strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 2 } } } }
const places = ['spec.strategy.rollingUpdate']

t.test('fields that rules leave to their managers are in nobody’s way', async (t) => {
  const own = entry('m', { 'f:spec': { 'f:strategy': { 'f:type': leaf } } }, 'Apply')
  const hand = entry('kubectl-edit', strategy('maxSurge'))
  const entries = entriesOf({ metadata: { managedFields: [own, hand] } })
  t.match(withDisowned(object, entries, { manager: 'm', places }), { from: ['kubectl-edit'], others: [] })
  const ignoredOf: IgnoredOf = ({ manager, fieldsV1 }) => (manager === 'kubectl-edit' ? fieldsV1 : {})
  const left = withDisowned(object, entries, { manager: 'm', places, ignoredOf })
  t.match(left, { from: [], others: [] })
  t.strictSame(
    left?.entries.find(({ manager }) => manager === 'kubectl-edit'),
    hand,
    'it keeps its field, and the defaults beside it are taken over',
  )
  t.match(left?.entries.find(({ manager }) => manager === 'm')?.fieldsV1, strategy('maxUnavailable'))
})

t.test('a long list with an entry for each item takes no quadratic work', async (t) => {
  const count = 20_000
  const items = Array.from({ length: count }, (_, i) => [`k:{"name":${i}}`, { 'f:v': leaf }])
  const own = entry('m', { 'f:spec': { 'f:a': leaf } }, 'Apply')
  const hand = entry('kubectl-edit', { 'f:list': Object.fromEntries(items) })
  const entries = entriesOf({ metadata: { managedFields: [own, hand] } })
  const list = Array.from({ length: count }, (_, name) => ({ name, v: 1, w: 2 }))
  const began = process.cpuUsage()
  const found = withDisowned({ list }, entries, { manager: 'm', places: ['list[3].v'] })
  const { user } = process.cpuUsage(began)
  t.match(found?.entries.find(({ manager }) => manager === 'm')?.fieldsV1, {
    'f:list': { 'k:{"name":7}': { 'f:v': leaf, 'f:w': leaf } },
  })
  t.ok(user / 1000 < patience(5000), `${user / 1000} ms`)
})

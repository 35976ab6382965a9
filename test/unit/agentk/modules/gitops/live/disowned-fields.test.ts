import t from 'tap'
import { withDisowned } from '../../../../../../src/agentk/modules/gitops/live/disowned-fields.ts'
import { entriesOf, type IgnoredOf } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'

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

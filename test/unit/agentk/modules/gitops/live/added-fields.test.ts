import t from 'tap'
import { addedTaken } from '../../../../../../src/agentk/modules/gitops/live/added-fields.ts'
import { type FieldSet, ownEntry as ownOf } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { type Entry, entries, entry, isAdder, leaf, manager, ownEntry } from '../drift/managed.ts'

const options = { manager, isAdder, ignoredOf: () => ({}) }
const pod = (fields: FieldSet): FieldSet => ({ 'f:spec': { 'f:template': { 'f:spec': fields } } })
const own = ownEntry(pod({ 'f:containers': { 'k:{"name":"web"}': { '.': leaf, 'f:image': leaf } } }))

/** Returns the fields of each manager after the added ones were taken, or undefined. */
function taken(...others: readonly Entry[]) {
  const found = addedTaken(entries(own, ...others), options)
  return found && Object.fromEntries(found.map((one) => [String(one.manager), one.fieldsV1]))
}

t.test('added fields become the source’s; what the same tool owns beside them stays its own', async (t) => {
  const label = { 'f:metadata': { 'f:labels': { 'f:note': leaf } } }
  const selector = { 'f:nodeSelector': { '.': leaf, 'f:disk': leaf } }
  const found = taken(entry('kubectl-edit', { ...label, ...pod(selector) }))
  t.strictSame(found?.['kubectl-edit'], label)
  const containers = { 'f:containers': { 'k:{"name":"web"}': { '.': leaf, 'f:image': leaf } } }
  t.strictSame(found?.[manager], pod({ ...containers, ...selector }))
})

t.test('an added item is taken whole, an added field of an item alone', async (t) => {
  const item = { 'k:{"name":"side"}': { '.': leaf, 'f:name': leaf, 'f:image': leaf } }
  const field = { 'k:{"name":"web"}': { 'f:tty': leaf } }
  const found = taken(entry('kubectl-edit', pod({ 'f:containers': { ...item, ...field } })))
  t.strictSame(found?.['kubectl-edit'], undefined, 'its entry is empty, and goes')
  const web = { '.': leaf, 'f:image': leaf, 'f:tty': leaf }
  t.match(found?.[manager], pod({ 'f:containers': { ...item, 'k:{"name":"web"}': web } }))
})

t.test('two tools that have added one field lose it both', async (t) => {
  const added = pod({ 'f:priorityClassName': leaf })
  const found = taken(entry('kubectl-edit', added), entry('k9s', added))
  t.strictSame(Object.keys(found ?? {}), [manager])
})

t.test('what others own too, controllers’ fields, labels, the status and replicas of scale stay', async (t) => {
  const added = pod({ 'f:priorityClassName': leaf })
  t.equal(taken(entry('kubectl-edit', added), entry('a-controller', added)), undefined)
  t.equal(taken(entry('a-controller', added)), undefined)
  t.equal(taken(entry('kubectl-label', { 'f:metadata': { 'f:labels': { 'f:a': leaf } } })), undefined)
  t.equal(taken(entry('kubectl-edit', { 'f:status': { 'f:a': leaf } }, { subresource: 'status' })), undefined)
  t.equal(taken(entry('kubectl', { 'f:spec': { 'f:replicas': leaf } }, { subresource: 'scale' })), undefined)
  t.equal(addedTaken(entries(entry('kubectl-create', added)), options), undefined, 'the source has not applied it yet')
})

t.test('a field that a rule leaves to its manager stays', async (t) => {
  const added = pod({ 'f:priorityClassName': leaf, 'f:nodeName': leaf })
  const ignored = pod({ 'f:priorityClassName': leaf })
  const found = addedTaken(entries(own, entry('kubectl-edit', added)), { ...options, ignoredOf: () => ignored })
  t.strictSame(found?.find((one) => one.manager === 'kubectl-edit')?.fieldsV1, ignored)
  t.match(ownOf(found ?? [], manager)?.fieldsV1, pod({ 'f:nodeName': leaf }))
})

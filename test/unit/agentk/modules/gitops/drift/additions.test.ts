import t from 'tap'
import { additionsOf, msUntilSettled } from '../../../../../../src/agentk/modules/gitops/drift/additions.ts'
import { addedFields } from '../../../../../../src/agentk/modules/gitops/drift/differences.ts'
import { pathText } from '../../../../../../src/agentk/modules/gitops/live/managed-path.ts'
import { OwnedFields } from '../../../../../../src/agentk/modules/gitops/live/owned-fields.ts'
import { type Entry, entries, entry, leaf, ownEntry } from './managed.ts'

const all = { 'f:limit': leaf, 'f:paused': leaf, 'f:size': leaf }
const live = { spec: { limit: 10, paused: true, size: 3 } }
const byApply = (manager: string, fields: object = all) => entry(manager, { 'f:spec': fields }, { operation: 'Apply' })

/** @param without - objects without the fields of a manager. @returns paths that are told, and the managers asked about */
async function told(of: readonly Entry[], without: Readonly<Record<string, object | undefined>> = {}) {
  const others = entries(...of)
  const owned = new OwnedFields([...others, ...entries(ownEntry({ 'f:spec': { 'f:x': leaf } }))])
  const asked: string[] = []
  const withoutApply = async (manager: string) => {
    asked.push(manager)
    return without[manager] as never
  }
  const found = await additionsOf(addedFields(live, owned, new Set(others)), owned, { withoutApply })
  return { paths: found.map(({ path }) => pathText(path)), asked }
}

t.test('a field that has its value without its owner is no addition', async (t) => {
  const { paths, asked } = await told([byApply('kubectl')], { kubectl: { spec: { limit: 10, size: 5 } } })
  t.strictSame(paths, ['.spec.paused', '.spec.size'])
  t.strictSame(asked, ['kubectl'], 'it is asked about once')
})

t.test('without an answer all are told', async (t) => {
  t.equal((await told([byApply('kubectl')])).paths.length, 3)
})

t.test('fields that an update has set, or that a second tool owns too, are told without a question', async (t) => {
  const update = entry('kubectl-edit', { 'f:spec': { 'f:limit': leaf } })
  t.strictSame(await told([update]), { paths: ['.spec.limit'], asked: [] })
  const object = { spec: { limit: 10, paused: true } }
  const { paths, asked } = await told([update, byApply('kubectl')], { kubectl: object })
  t.strictSame(paths, ['.spec.limit', '.spec.size'])
  t.strictSame(asked, ['kubectl'])
})

t.test('at most two managers of an object are asked about', async (t) => {
  const each = ['f:limit', 'f:paused', 'f:size'].map((name, i) => byApply(`kubectl-${i}`, { [name]: leaf }))
  const { paths, asked } = await told(each, Object.fromEntries([0, 1, 2].map((i) => [`kubectl-${i}`, live])))
  t.strictSame(asked, ['kubectl-0', 'kubectl-1'])
  t.strictSame(paths, ['.spec.size'])
})

t.test('an apply by another manager is settled once its second is over', async (t) => {
  const time = '2026-01-01T00:00:00Z'
  const now = Date.parse(time)
  const by = (manager: string, operation = 'Apply', at = time) => ({
    metadata: { managedFields: [{ manager, operation, time: at }] },
  })
  const left = (object: Readonly<Record<string, unknown>>, after: number) =>
    msUntilSettled(object, { manager: 'own', now: now + after })
  t.equal(left(by('kubectl'), 0), 1000)
  t.equal(left(by('kubectl'), 999), 1)
  t.equal(left(by('kubectl'), 1000), 0)
  t.equal(left(by('own'), 0), 0, 'its own')
  t.equal(left(by('kubectl', 'Update'), 0), 0, 'no apply')
  t.equal(left(by('kubectl', 'Apply', ''), 0), 0, 'without a time')
  t.equal(left(by('kubectl', 'Apply', '9999-01-01T00:00:00Z'), 0), 0, 'a time that cannot be')
  t.equal(left({}, 0), 0)
})

import t from 'tap'
import { keyText, type ObjectKey } from '../../../../../src/agentk/modules/gitops/manifests/object-key.ts'
import { SourceTable } from '../../../../../src/agentk/modules/gitops/source-table.ts'
import { maxObjects, type SourceBlock } from '../../../../../src/proto/gitops-json.ts'

const keyOf = (name: string, namespace = 'shop', kind = 'ConfigMap', group = ''): ObjectKey => ({
  group,
  kind,
  namespace,
  name,
})
const wants = (commit: string, ...keys: ObjectKey[]) => ({
  commit,
  keys: new Map(keys.map((key) => [keyText(key), key])),
})

/** Two sources: what the first is told of the other. */
function pair(block: SourceBlock = {}) {
  const table = new SourceTable()
  const [own, other] = [{}, {}]
  table.set(own, { block: {} })
  table.set(other, { block: { name: 'other', ...block } })
  table.claim(own, '42-7')
  return { table, own, other, others: table.others(own) }
}

t.test('until it is known what a source wants, it holds what it could want, and nothing else', async (t) => {
  const { table, other, others } = pair({
    namespaces: ['shop'],
    resource_exclusions: [{ api_groups: [''], kinds: ['Secret'] }],
  })
  const holds = (key: ObjectKey) => others.mayWant(key, 'c1') !== undefined
  t.equal(holds(keyOf('a')), true)
  t.equal(holds(keyOf('a', 'else')), false)
  t.equal(holds(keyOf('a', 'shop', 'Secret')), false)
  t.equal(holds(keyOf('role', '', 'ClusterRole', 'rbac.authorization.k8s.io')), false)
  t.equal(holds(keyOf('shop', '', 'Namespace')), true, 'what it may want would go with it')
  t.equal(holds(keyOf('else', '', 'Namespace')), false)
  t.equal(holds(keyOf('widgets.example.com', '', 'CustomResourceDefinition', 'apiextensions.k8s.io')), true)
  t.match(others.mayWant(keyOf('a'), 'c1'), /of its own project other/)
  table.delete(other)
  t.equal(holds(keyOf('a')), false)
  table.isWhole = false
  t.equal(holds(keyOf('a', 'else')), true, 'of one that cannot be read nothing is known')
})

t.test('of a source of the same project and ref it is to be known at the same commit', async (t) => {
  const held = (block: SourceBlock, id: string, commit: string) => {
    const { table, other, others } = pair(block)
    table.claim(other, id)
    table.wants(other, wants(commit, keyOf('b')))
    return others.mayWant(keyOf('a'), 'c2') !== undefined
  }
  t.equal(held({}, '42-7-other', 'c1'), true)
  t.equal(held({}, '42-7-other', ''), true, 'its commit is refused')
  t.equal(held({}, '42-7-other', 'c2'), false)
  t.equal(held({ ref: { branch: 'b' } }, '42-7-other', 'c1'), false)
  t.equal(held({}, '42-8-other', 'c1'), false)
})

t.test('what a source wants, and what it has let go of', async (t) => {
  const { table, other, others } = pair()
  t.equal(others.heir(keyOf('a')), undefined)
  t.equal(others.isHandedOver('42-8-other', keyOf('b')), false, 'it has not said anything')
  table.claim(other, '42-8-other')
  t.equal(table.wants(other, wants('c1', keyOf('a'))), true)
  t.equal(others.heir(keyOf('a')), '42-8-other')
  t.equal(others.isHandedOver('42-8-other', keyOf('a')), false)
  t.equal(others.isHandedOver('42-8-other', keyOf('b')), true)
  t.equal(others.isHandedOver('42-9', keyOf('b')), false)
  t.strictSame([...others.wanted()], [keyOf('a')])
  t.equal(table.wants(other, wants('c1', keyOf('a'))), false, 'no news')
  t.equal(table.wants(other, wants('c1', keyOf('b'))), true)
  t.equal(table.wants(other, wants('c2', keyOf('b'))), true)
})

t.test('objects of an agent: each source has its share, the rest is of whoever comes first', async (t) => {
  const { table, other, others } = pair()
  const keysOf = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) => keyOf(`m${from + index}`))
  const hasRoom = (from: number, to: number) => others.hasRoom(wants('', ...keysOf(from, to)).keys)
  t.equal(hasRoom(0, maxObjects), true)
  t.equal(hasRoom(0, maxObjects + 1), false)
  table.wants(other, wants('c1', ...keysOf(0, 6000)))
  t.equal(hasRoom(6000, maxObjects), true)
  t.equal(hasRoom(1500, 6000), true, 'what moves counts once')
  t.equal(hasRoom(6000, 12_000), false)
  table.wants(other, wants('c2', ...keysOf(0, maxObjects)))
  t.equal(hasRoom(20_000, 20_000 + maxObjects / 2), true, 'its share')
  t.equal(hasRoom(20_000, 20_001 + maxObjects / 2), false)
  t.equal(
    table.others(other).hasRoom(wants('c2', ...keysOf(0, maxObjects)).keys),
    true,
    'while the other has said nothing',
  )
})

t.test('an id is of one source; who may go by it', async (t) => {
  const { table, own, other } = pair()
  t.throws(() => table.claim(other, '42-7'), /has 42-7 twice/)
  t.equal(table.isBeside(own, '42-9-other'), true, 'its project is not known yet')
  t.equal(table.isBeside(own, '42-9-third'), false)
  table.claim(other, '42-8-other')
  t.equal(table.isBeside(own, '42-9-other'), false)
  t.equal(table.isBeside(own, '42-8-other'), true)
  t.equal(table.isBeside(other, '42-8-other'), false)
})

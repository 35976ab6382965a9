import t from 'tap'
import { SourceRegistry } from '../../../../../../src/agentk/modules/gitops/sources/source-registry.ts'
import { keyText, type ObjectKey } from '../../../../../../src/kubernetes/key.ts'
import { maxObjects } from '../../../../../../src/proto/gitops/limits.ts'
import type { SourceBlock } from '../../../../../../src/proto/gitops/schema.ts'

const keyOf = (name: string, namespace = 'shop', kind = 'ConfigMap', group = ''): ObjectKey => ({
  group,
  kind,
  namespace,
  name,
})
const claimOf = (commit: string, ...keys: ObjectKey[]) => ({
  commit,
  keys: new Map(keys.map((key) => [keyText(key), key])),
})

/** Registers two sources; `others` holds the claims that the first one sees of the second. */
function pair(block: SourceBlock = {}) {
  const changed: object[] = []
  const registry = new SourceRegistry(42n, (source) => changed.push(source))
  const [own, other] = [{}, {}]
  registry.set(own, { block: {} })
  registry.set(other, { block: { name: 'other', ...block } })
  registry.name(own, '42-7')
  return { registry, own, other, others: registry.claims(own), claim: registry.claims(other).claim, changed }
}

t.test('until it is known what a source wants, it holds what it could want, and nothing else', async (t) => {
  const { registry, other, others } = pair({
    namespaces: ['shop'],
    resource_exclusions: [{ api_groups: [''], kinds: ['Secret'] }],
  })
  const holds = (key: ObjectKey) => others.unknownClaim(key, 'c1') !== undefined
  t.equal(holds(keyOf('a')), true)
  t.equal(holds(keyOf('a', 'else')), false)
  t.equal(holds(keyOf('a', 'shop', 'Secret')), false)
  t.equal(holds(keyOf('role', '', 'ClusterRole', 'rbac.authorization.k8s.io')), false)
  t.equal(holds(keyOf('shop', '', 'Namespace')), true, 'what it may want would go with it')
  t.equal(holds(keyOf('else', '', 'Namespace')), false)
  t.equal(holds(keyOf('widgets.example.com', '', 'CustomResourceDefinition', 'apiextensions.k8s.io')), true)
  t.match(others.unknownClaim(keyOf('a'), 'c1'), /of its own project other/)
  registry.delete(other)
  t.equal(holds(keyOf('a')), false)
  registry.isWhole = false
  t.equal(holds(keyOf('a', 'else')), true, 'of one that cannot be read nothing is known')
})

t.test('of a source of the same project and ref it is to be known at the same commit', async (t) => {
  const held = (block: SourceBlock, id: string, commit: string) => {
    const { registry, other, others, claim } = pair(block)
    registry.name(other, id)
    claim(claimOf(commit, keyOf('b')))
    return others.unknownClaim(keyOf('a'), 'c2') !== undefined
  }
  t.equal(held({}, '42-7-other', 'c1'), true)
  t.equal(held({}, '42-7-other', ''), true, 'its commit is refused, and it has made nothing')
  const { registry, other, others, claim } = pair({})
  registry.name(other, '42-7-other')
  claim({ ...claimOf('', keyOf('b')), isLastGood: true })
  t.equal(others.unknownClaim(keyOf('a'), 'c2'), undefined, 'it is refused: what it has made counts')
  t.equal(held({}, '42-7-other', 'c2'), false)
  t.equal(held({ ref: { branch: 'b' } }, '42-7-other', 'c1'), false)
  t.equal(held({}, '42-8-other', 'c1'), false)
})

t.test('what a source wants, and what it has let go of', async (t) => {
  const { registry, other, others, claim, changed } = pair()
  t.equal(others.newOwner(keyOf('a')), undefined)
  t.equal(others.isHandedOver('42-8-other', keyOf('b')), false, 'it has not claimed anything')
  registry.name(other, '42-8-other')
  claim(claimOf('c1', keyOf('a')))
  t.strictSame(changed, [other])
  t.equal(others.newOwner(keyOf('a')), '42-8-other')
  t.equal(others.isHandedOver('42-8-other', keyOf('a')), false)
  t.equal(others.isHandedOver('42-8-other', keyOf('b')), true)
  t.equal(others.isHandedOver('42-9', keyOf('b')), false)
  t.strictSame([...others.wanted()], [keyOf('a')])
  claim(claimOf('c1', keyOf('a')))
  t.equal(changed.length, 1, 'it is the same claim')
  claim(claimOf('c1', keyOf('b')))
  claim(claimOf('c2', keyOf('b')))
  t.equal(changed.length, 3)
})

t.test('objects of an agent: each source has its share, the rest is of whoever comes first', async (t) => {
  const { registry, other, others, claim } = pair()
  const keysOf = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) => keyOf(`m${from + index}`))
  const hasRoom = (from: number, to: number) => others.hasRoom(claimOf('', ...keysOf(from, to)).keys)
  t.equal(hasRoom(0, maxObjects), true)
  t.equal(hasRoom(0, maxObjects + 1), false)
  claim(claimOf('c1', ...keysOf(0, 6000)))
  t.equal(hasRoom(6000, maxObjects), true)
  t.equal(hasRoom(1500, 6000), true, 'what moves counts once')
  t.equal(hasRoom(6000, 12_000), false)
  claim(claimOf('c2', ...keysOf(0, maxObjects)))
  t.equal(hasRoom(20_000, 20_000 + maxObjects / 2), true, 'its share')
  t.equal(hasRoom(20_000, 20_001 + maxObjects / 2), false)
  t.equal(
    registry.claims(other).hasRoom(claimOf('c2', ...keysOf(0, maxObjects)).keys),
    true,
    'while the other has claimed nothing',
  )
})

t.test('an id is of one source; who may go by it', async (t) => {
  const { registry, own, other } = pair()
  t.throws(() => registry.name(other, '42-7'), /has 42-7 twice/)
  t.equal(registry.isBeside(own, '42-9-other'), true, 'its project is not known yet')
  t.equal(registry.isBeside(own, '42-9-third'), false)
  registry.name(other, '42-8-other')
  t.equal(registry.isBeside(own, '42-9-other'), false)
  t.equal(registry.isBeside(own, '42-8-other'), true)
  t.equal(registry.isBeside(other, '42-8-other'), false)
})

t.test('who wants an object that another one wants is told, and once that has ended', async (t) => {
  const told: (readonly object[])[] = []
  const registry = new SourceRegistry(42n, (_, contested) => void told.push([...contested]))
  const [one, two] = [{}, {}]
  for (const [index, source] of [one, two].entries()) {
    registry.set(source, { block: {} })
    registry.name(source, `42-${index}`)
  }
  const claims = (source: object, commit: string, ...names: string[]) =>
    registry.claims(source).claim(claimOf(commit, ...names.map((name) => keyOf(name))))
  claims(one, 'c1', 'a', 'b')
  claims(two, 'c1', 'b', 'c')
  t.equal(registry.claims(one).newOwner(keyOf('b')), '42-1')
  t.equal(registry.claims(one).newOwner(keyOf('c')), '42-1')
  t.equal(registry.claims(one).newOwner(keyOf('a')), undefined)
  claims(two, 'c2', 'b', 'c')
  claims(two, 'c3', 'c')
  t.strictSame(told, [[], [one], [], [one]])
  t.equal(registry.claims(one).newOwner(keyOf('b')), undefined)
  registry.delete(one)
  t.equal(registry.claims(two).newOwner(keyOf('a')), undefined)
})

t.test('sources of the same project and ref may move objects to one another by one change', async (t) => {
  const siblings = (block: SourceBlock, id: string, key = keyOf('a')) => {
    const { registry, own, other } = pair(block)
    registry.name(other, id)
    return registry.siblings(own, key)
  }
  t.strictSame(siblings({}, '42-7-other'), ['42-7-other'])
  t.strictSame(siblings({}, '42-8-other'), [], 'another project has changes of its own')
  t.strictSame(siblings({ ref: { branch: 'b' } }, '42-7-other'), [])
  t.strictSame(siblings({ namespaces: ['shop'] }, '42-7-other', keyOf('a', 'else')), [], 'it may not want it')
})

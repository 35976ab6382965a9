import t from 'tap'
import { stockKey } from '../../../../../../src/agentk/modules/gitops/inventory/known-entries.ts'
import {
  maxKeptLeftOut,
  maxReasonLength,
  maxShardBytes,
  maxShardEntries,
  shardEntries,
  shardsOf,
  union,
} from '../../../../../../src/agentk/modules/gitops/inventory/shards.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'
import { Seeded } from '../../../../../support/seeded.ts'

const entry = (name: string, more: Partial<InventoryEntry> = {}): InventoryEntry => ({
  key: { group: 'apps', kind: 'Deployment', namespace: 'shop', name },
  version: 'v1',
  uid: 'u',
  wave: 0,
  digest: 'd',
  fields: 'f',
  state: 'applied',
  reason: '',
  ...more,
})
const many = (count: number) => Array.from({ length: count }, (_, at) => entry(`web-${at}`))
const namesOf = (shards: ReadonlyMap<string, string>) => [...shards.keys()]
const read = (shards: ReadonlyMap<string, string>) => union([...shards.values()].map((text) => ({ revision: 1, text })))
const digits = [...'0123456789abcdef']

t.test('few are together, in one order', async (t) => {
  const shards = shardsOf(many(3))
  t.strictSame(namesOf(shards), ['all'])
  t.strictSame(shardsOf(many(3).reverse()), shards)
  t.strictSame(new Map(many(3).map((one) => [keyText(one.key), one])).size, read(shards).size)
  t.strictSame(read(shards).get('apps/Deployment/shop/web-1'), entry('web-1'))
  t.strictSame(shardsOf([]), new Map([['all', '']]))
})

t.test('many are divided, and stay so until they are few', async (t) => {
  t.strictSame(namesOf(shardsOf(many(maxShardEntries))), ['all'])
  const divided = shardsOf(many(maxShardEntries + 1))
  t.strictSame(namesOf(divided), digits)
  t.equal(read(divided).size, maxShardEntries + 1)
  t.strictSame(namesOf(shardsOf(many(maxShardEntries), divided.keys())), digits)
  t.strictSame(namesOf(shardsOf(many(maxShardEntries / 2), divided.keys())), ['all'])
  const large = shardsOf(many(maxShardEntries * 20))
  t.ok(namesOf(large).every((name) => name.length === 2))
  t.equal(read(large).size, maxShardEntries * 20)
})

t.test('large ones are divided by their bytes', async (t) => {
  const long = (at: number) => entry(`${at}-${'x'.repeat(240)}`, { reason: 'ä'.repeat(maxReasonLength) })
  const shards = shardsOf(Array.from({ length: maxShardEntries }, (_, at) => long(at)))
  t.strictSame(namesOf(shards), digits)
  for (const text of shards.values()) t.ok(Buffer.byteLength(text) <= maxShardBytes)
})

t.test('values left out are kept, the first ones; what has another form is not', async (t) => {
  const one = { path: '.spec.replicas', manager: 'scaler', rule: '{ paths: [.spec.replicas] }' }
  const left = entry('a', { ignored: 'h', leftOut: [one] })
  const lineOf = (...entries: InventoryEntry[]) => [...shardsOf(entries).values()][0] ?? ''
  t.strictSame(shardEntries(lineOf(left)), [left])
  t.strictSame(shardEntries(lineOf(entry('a'))), [entry('a')], 'none')
  t.notMatch(lineOf(entry('a')), /ignored|leftOut/, 'as an older agentk writes it')
  const many = entry('a', {
    leftOut: Array.from({ length: 50 }, (_, i) => ({ ...one, path: `.${i}${'x'.repeat(1000)}` })),
  })
  const [kept] = shardEntries(lineOf(many))
  t.equal(kept?.leftOut?.length, maxKeptLeftOut)
  t.equal(kept?.leftOut?.[0]?.path.length, 200)
  for (const wrong of [{ ignored: 7 }, { leftOut: 'x' }, { leftOut: [null] }, { leftOut: [{ path: 1 }] }]) {
    const line = JSON.stringify({ ...JSON.parse(lineOf(entry('a'))), ...wrong })
    t.strictSame(shardEntries(line), [entry('a')], JSON.stringify(wrong))
  }
})

t.test('that a Job runs once is kept, and nothing else in its place', async (t) => {
  const once = entry('a', { runsOnce: true })
  const lineOf = (one: InventoryEntry) => [...shardsOf([one]).values()][0] ?? ''
  t.strictSame(shardEntries(lineOf(once)), [once])
  t.notMatch(lineOf(entry('a')), /runsOnce/, 'as an older agentk writes it')
  for (const wrong of [false, 'true', 1, null]) {
    const line = JSON.stringify({ ...JSON.parse(lineOf(entry('a'))), runsOnce: wrong })
    t.strictSame(shardEntries(line), [entry('a')], String(wrong))
  }
})

t.test('a reason by an earlier version shows no key of a Secret', async (t) => {
  const readOne = (reason: string, kind = 'Secret') => {
    const [shard = ''] = shardsOf([
      entry('a', { key: { group: '', kind, namespace: 'shop', name: 'a' }, reason }),
    ]).values()
    return shardEntries(shard)[0]?.reason
  }
  const texts: readonly (readonly [string, string])[] = [
    ['data[p w]: Invalid value; data[w]: Required value', 'data[…]: Invalid value; data[…]: Required value'],
    [
      'fields of others: .data.pw (kubectl), .data.tls.key (a); force',
      'fields of others: .data.… (kubectl), .data.… (a); force',
    ],
    ['admission webhook "a" denied the request: pw\n.data.pw', 'admission webhook "a" denied the request: ***'],
    ['data[p]w]: Invalid value; data[pw cut', 'data[…]: Invalid value; data[…]'],
    ['the API server answered 422', 'the API server answered 422'],
  ]
  for (const [written, shown] of texts) {
    t.equal(readOne(written), shown)
    t.equal(readOne(shown), shown, 'it stays as it is')
    t.equal(readOne(written, 'ConfigMap'), written)
  }
})

t.test('a long reason is cut', async (t) => {
  const [shard = ''] = shardsOf([entry('a', { reason: 'x\n"'.repeat(maxReasonLength) })]).values()
  t.equal(shardEntries(shard)[0]?.reason.length, maxReasonLength)
})

t.test('an interrupted division loses nothing', async (t) => {
  const random = Seeded.for(t)
  const before = many(maxShardEntries)
  const after = [...before.map((one) => ({ ...one, digest: 'new' })), entry('late')]
  const old = [...shardsOf(before).values()].map((text) => ({ revision: 4, text }))
  const fresh = [...shardsOf(after).values()].map((text) => ({ revision: 5, text }))
  for (let written = 0; written <= fresh.length; written++) {
    const found = union(random.shuffled([...fresh.slice(0, written), ...old]))
    for (const { key } of before) t.ok(found.has(keyText(key)) || t.fail(keyText(key)))
    for (const { text } of fresh.slice(0, written)) {
      for (const one of shardEntries(text))
        if (found.get(keyText(one.key))?.digest !== one.digest) t.fail('an old entry won')
    }
  }
})

t.test('what cannot be read is an error', async (t) => {
  t.throws(() => shardEntries('{}'), /no entry of an inventory/)
  t.throws(() => shardEntries('text'))
  const [line = ''] = shardsOf([entry('a')]).values()
  t.throws(() => shardEntries(line.replace('applied', 'unheard')), /no entry of an inventory/)
})

t.test('an inventory that a person has edited: what is no entry is named, with its place', async (t) => {
  const [line = ''] = shardsOf([entry('a')]).values()
  const edited = (more: object) => JSON.stringify({ ...JSON.parse(line), ...more })
  const wrong = ['null', '7', '"text"', '[]', 'text', '{"group":', edited({ kind: '' }), edited({ name: '' })]
  wrong.push(...['.', '..', 'a/b', 'a%2fb'].flatMap((name) => [edited({ name }), edited({ namespace: name })]))
  for (const text of wrong) {
    const shards = [{ revision: 1, text: `${line}\n${text}`, name: 'gitops-42-7-all' }]
    t.throws(() => union(shards), { message: /^ConfigMap gitops-42-7-all: line 2 is no entry of an inventory: / }, text)
  }
  t.equal(union([{ revision: 1, text: `${line}\n${line}` }]).size, 1, 'an entry that is there twice is one')
})

t.test('times of drift that are no times count as none', async (t) => {
  const [line = ''] = shardsOf([entry('a')]).values()
  const read = (drift: string) => shardEntries(line.replace(/}$/, `,"drift":${drift}}`))[0]?.drift
  for (const since of ['1.5', '1e300', '1e999', '-1', '"1"', 'null', '9007199254740993.5']) {
    t.equal(read(`{"since":${since}}`), undefined, since)
  }
  t.strictSame(read('{"since":7}'), { since: 7 })
  const many = JSON.stringify([0.5, 1e300, -1, 'x', ...Array.from({ length: 100_000 }, (_, i) => i)])
  t.strictSame(read(`{"since":0,"by":"a","corrections":${many}}`), {
    since: 0,
    by: 'a',
    corrections: [99_997, 99_998, 99_999],
  })
})

t.test('keys of the stock inventory', async (t) => {
  t.strictSame(stockKey('shop_web_apps_Deployment'), {
    group: 'apps',
    kind: 'Deployment',
    namespace: 'shop',
    name: 'web',
  })
  t.strictSame(stockKey('_system__node__x_rbac.authorization.k8s.io_ClusterRole'), {
    group: 'rbac.authorization.k8s.io',
    kind: 'ClusterRole',
    namespace: '',
    name: 'system:node:x',
  })
  t.strictSame(stockKey('shop_a__Secret'), { group: '', kind: 'Secret', namespace: 'shop', name: 'a' })
  for (const text of [
    'shop_..__Secret',
    '.._a__Secret',
    '',
    'a',
    'a_b_c',
    'shop_a_b_c_Secret',
    'shop__apps_Deployment',
  ])
    t.equal(stockKey(text), undefined, text)
})

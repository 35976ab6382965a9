import t from 'tap'
import type { ObjectRecord } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { maxGroups } from '../../../../../../src/agentk/modules/views/tree/forest.ts'
import { maxAbove } from '../../../../../../src/agentk/modules/views/tree/owners.ts'
import type { Clock } from '../../../../../../src/lib/clock.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { forestOf } from '../../../../../support/views/forest-of.ts'
import { kinds, recordOf } from '../../../../../support/views/records.ts'
import { RecordsDouble } from '../../../../../support/views/records-double.ts'

/** Each reading takes 1 ms, so long work takes long. */
class SlowClock implements Clock {
  readonly manual = new ManualClock()

  now(): number {
    this.manual.advance(1)
    return this.manual.now()
  }

  after(ms: number, action: () => void): () => void {
    return this.manual.after(ms, action)
  }
}

/** Counts the reads by uid. */
class CountedRecords extends RecordsDouble {
  read = 0

  override get(uid: string): ObjectRecord | undefined {
    this.read++
    return super.get(uid)
  }
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

interface StageOptions {
  readonly hidden?: readonly string[]
  readonly clock?: Clock
  readonly query?: string
}

function stage(
  records: readonly ObjectRecord[],
  { hidden = [], clock = new ManualClock(), query = '{"view":"tree"}' }: StageOptions = {},
) {
  const double = new CountedRecords()
  for (const record of records) double.put(record)
  const forest = forestOf({ records: double, query, hidden, clock })
  return { records: double, parent: (uid: string) => forest.node(uid)?.parent?.id, forest, walked: () => double.read }
}

const set = recordOf({ uid: 'set', kind: kinds.replicaSet })

t.test('an owner is believed where all that is said of it agrees', async (t) => {
  const said = { uid: 'set', kind: 'apps/ReplicaSet', name: 'set' }
  const node = recordOf({ uid: 'node', kind: kinds.node, namespace: '' })
  const { parent, forest } = stage([
    set,
    node,
    recordOf({ uid: 'right', owner: said }),
    recordOf({ uid: 'of-node', owner: node }),
    recordOf({ uid: 'other-name', owner: { ...said, name: 'sat' } }),
    recordOf({ uid: 'other-kind', owner: { ...said, kind: 'apps/DaemonSet' } }),
    recordOf({ uid: 'elsewhere', owner: said, namespace: 'bank' }),
    recordOf({ uid: 'orphan', owner: { ...said, uid: 'gone' } }),
  ])
  t.equal(parent('right'), 'set')
  t.equal(parent('of-node'), 'node')
  t.equal(parent('other-name'), 'o:shop:set')
  t.equal(parent('elsewhere'), 'o:bank:set')
  t.equal(parent('orphan'), 'o:shop:gone')
  t.equal(parent('o:shop:set'), '')
  t.match(forest.node('o:bank:set'), { kind: 'apps/ReplicaSet', name: 'set', namespace: 'bank' })
  t.match(forest.node('o:shop:set'), { kind: 'apps/DaemonSet', name: 'set' }, 'of those that differ the least decides')
})

t.test('a hidden owner is as an absent one, also as it comes and goes', async (t) => {
  const { parent, records, forest } = stage([set, recordOf({ uid: 'pod', owner: set })], {
    hidden: ['apps/ReplicaSet'],
  })
  let touched = 0
  forest.listeners.add({
    touched: () => touched++,
    rebundled: () => touched++,
    moved: () => undefined,
    settled: () => touched++,
  })
  t.equal(parent('pod'), 'o:shop:set')
  records.delete('set')
  records.put(set)
  t.equal(parent('pod'), 'o:shop:set')
  t.equal(touched, 0)
})

t.test('an owner that comes and goes takes its children with it', async (t) => {
  const { parent, records, forest } = stage([recordOf({ uid: 'pod', owner: set, verdict: 'Degraded' })])
  t.equal(parent('pod'), 'o:shop:set')
  records.put(set)
  t.equal(parent('pod'), 'set')
  t.equal(forest.node('o:shop:set'), undefined)
  t.equal(forest.node('set')?.total, 5)
  records.delete('set')
  t.equal(parent('pod'), 'o:shop:set')
  t.equal(forest.node('set'), undefined)
})

t.test('the parent by custom, only if it is seen', async (t) => {
  const statefulSet = recordOf({ uid: 'db', kind: kinds.statefulSet })
  const claim = recordOf({
    uid: 'data-db-0',
    kind: kinds.claim,
    customParent: { kind: 'apps/StatefulSet', name: 'db' },
  })
  t.equal(stage([statefulSet, claim]).parent('data-db-0'), 'db')
  t.equal(stage([statefulSet, claim], { hidden: ['apps/StatefulSet'] }).parent('data-db-0'), '')
})

t.test('a claim is of the StatefulSet of the longest name that is there', async (t) => {
  const inNamespace = (uid: string) => recordOf({ uid, kind: kinds.statefulSet, namespace: 'shop' })
  const claim = recordOf({ uid: 'data-my-web-0', kind: kinds.claim })
  const all = stage([inNamespace('web'), claim])
  t.equal(all.parent('data-my-web-0'), 'web')
  all.records.put(inNamespace('my-web'))
  t.equal(all.parent('data-my-web-0'), 'my-web')
  all.records.delete('my-web')
  t.equal(all.parent('data-my-web-0'), 'web')
})

t.test('a cycle is cut at its least uid, and whole again once it is none', async (t) => {
  const ring = ['a', 'b', 'c', 'd'].map((uid, i, all) =>
    recordOf({ uid, owner: { uid: all[(i + 1) % 4] as string, kind: 'Pod', name: all[(i + 1) % 4] as string } }),
  )
  const { parent, records } = stage([
    ...ring,
    recordOf({ uid: 'self', owner: { uid: 'self', kind: 'Pod', name: 'self' } }),
  ])
  const parents = () => ['a', 'b', 'c', 'd'].map(parent)
  t.strictSame(parents(), ['', 'c', 'd', 'a'])
  t.equal(parent('self'), '')
  records.put(recordOf({ uid: 'c' }))
  t.strictSame(parents(), ['b', 'c', '', 'a'])
  records.put(ring[2] as ObjectRecord)
  t.strictSame(parents(), ['', 'c', 'd', 'a'])
  records.delete('c')
  t.strictSame(parents(), ['b', 'o:shop:c', undefined, 'a'])
  records.put(ring[2] as ObjectRecord)
  t.strictSame(parents(), ['', 'c', 'd', 'a'])
})

const above = (uid: string) => ({ uid, kind: 'Pod', name: uid })
/** Returns objects, each owned by the next. */
const chainOf = (count: number) =>
  Array.from({ length: count }, (_, i) =>
    recordOf({ uid: `${i}`, owner: above(`${i + 1}`), verdict: i === 0 ? 'Degraded' : '' }),
  )

t.test('what hangs below a cycle', async (t) => {
  const { parent, forest, records } = stage([...chainOf(50), recordOf({ uid: '50', owner: above('40') })])
  t.equal(parent('40'), '')
  t.equal(parent('0'), '1')
  t.equal(forest.node('40')?.total, 5)
  records.put(recordOf({ uid: '0', verdict: 'Degraded' }))
  t.equal(forest.node('40')?.total, 0)
})

t.test('one that has more owners above it than there may be stands as a root', async (t) => {
  const { parent, records } = stage(chainOf(100))
  const roots = () => Array.from({ length: 100 }, (_, i) => i).filter((i) => parent(`${i}`) === '')
  t.strictSame(roots(), range(0, 100 - maxAbove - 2), 'the uppermost is below what it says is its owner')
  records.put(recordOf({ uid: '99' }))
  t.strictSame(roots(), [...range(0, 99 - maxAbove - 1), 99])
  records.delete('80')
  t.strictSame(roots(), [...range(0, 79 - maxAbove - 1), 99])
  records.put(recordOf({ uid: '80', owner: above('20') }))
  t.strictSame(roots(), [...range(0, 15), 20, 99], 'a cycle of 61, and those below it from which it can be told')
  records.put(recordOf({ uid: '80', owner: above('10') }))
  t.strictSame(roots(), [...range(0, 80), 99], 'of a longer cycle each')
})

t.test('the same tree, whatever came first', async (t) => {
  const random = new Seeded(Number(process.env.KAS_SEED ?? 7))
  const uids = Array.from({ length: 150 }, (_, i) => `u${(i * 61) % 150}`)
  const make = (i: number) => {
    const owner = random.chance(0.99)
      ? above(uids[(i + (random.chance(0.99) ? 1 : random.int(150))) % 150] as string)
      : undefined
    return recordOf({ uid: uids[i] as string, ...(owner ? { owner } : {}) })
  }
  const { records, parent } = stage(uids.map((_, i) => make(i)))
  let deep = 0
  for (let step = 0; step < 150; step++) {
    const i = random.int(150)
    if (random.chance(0.02)) records.delete(uids[i] as string)
    else records.put(make(i))
    const anew = stage([...records.all()])
    const expected = uids.map(anew.parent)
    if (!t.strictSame(uids.map(parent), expected, `step ${step}`)) return
    for (const uid of uids) if (expected[uids.indexOf(uid)] === '' && records.get(uid)?.owner) deep++
  }
  t.ok(deep > 0)
})

t.test(
  'a chain of 6,000 costs each of its objects a walk that is bounded, and so does a cycle that comes and goes',
  async (t) => {
    const size = 6000
    const { records, parent, walked } = stage(chainOf(size))
    t.equal(parent('0'), '')
    t.ok(walked() <= size * (maxAbove + 4), `${walked()} owners read for ${size} objects`)
    const last = `${size - 1}`
    const before = walked()
    for (let i = 0; i < 10; i++) {
      records.put(recordOf({ uid: last, owner: above('0') }))
      records.put(recordOf({ uid: last }))
    }
    const read = (walked() - before) / 20
    t.ok(read <= 2 * (maxAbove + 4) ** 2, `${read} owners read for each change`)
  },
)

t.test('what changes again and again, faster than it is placed, leaves each batch an end', async (t) => {
  const clock = new SlowClock()
  const owner = recordOf({ uid: 'owner', environment: '1/prod' })
  const pods = Array.from({ length: 1000 }, (_, i) => recordOf({ uid: `p${i}`, owner }))
  const { records, forest } = stage([owner, ...pods, recordOf({ uid: 'other' })], {
    clock,
    query: '{"view":"environments"}',
  })
  while (!forest.isSettled) clock.manual.advance(1)
  let settled = 0
  forest.listeners.add({
    touched: () => undefined,
    rebundled: () => undefined,
    moved: () => undefined,
    settled: () => settled++,
  })
  records.put(recordOf({ uid: 'other', environment: '2/prod' }))
  let rounds = 0
  for (; rounds < 1000 && !(forest.isSettled && forest.node('other')); rounds++) {
    records.put({ ...owner, environment: `1/e${rounds}` })
    clock.manual.advance(1)
  }
  t.ok(rounds < 1000, `seen after ${rounds} rounds`)
  for (let i = 0; i < 2000; i++) {
    records.put({ ...owner, environment: `1/f${i}` })
    clock.manual.advance(1)
  }
  t.ok(settled > 5, `settled ${settled} times`)
})

t.test('what it takes room for: what waits for its place too, and what is in a group, shown or not', async (t) => {
  const records = new RecordsDouble()
  for (let i = 0; i < 1000; i++) records.put(recordOf({ uid: `${i}` }))
  const clock = new ManualClock()
  const ticking = { now: () => clock.now() + ticks++, after: clock.after.bind(clock) }
  let ticks = 0
  const query = '{"view":"tree","scope":{"environment":"1/none"}}'
  const forest = forestOf({ records, query, clock: ticking })
  t.equal(forest.isSettled, false)
  t.ok(forest.size >= 1000)
  while (!forest.isSettled) clock.advance(1)
  t.equal(forest.size, 1000)
  t.equal(forest.root.childCount, 0)
})

t.test('so many groups: objects of further ones stand as if in none, until there is room', async (t) => {
  const all = Array.from({ length: maxGroups }, (_, i) => recordOf({ uid: `u${i}`, application: `app-${i}` }))
  const { records, parent } = stage([...all, recordOf({ uid: 'one', application: 'further' })])
  t.equal(parent('u0'), 'g:application/app-0')
  t.equal(parent('one'), '')
  records.put(recordOf({ uid: 'other', application: 'app-1' }))
  t.equal(parent('other'), 'g:application/app-1', 'one that is there takes more')
  records.delete('u0')
  records.put(recordOf({ uid: 'next', application: 'further' }))
  t.equal(parent('next'), 'g:application/further')
})

import t from 'tap'
import { Forest, maxGroups } from '../../../../../src/agentk/modules/views/forest.ts'
import { readQuery } from '../../../../../src/agentk/modules/views/query.ts'
import type { ObjectRecord } from '../../../../../src/agentk/modules/views/record.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'
import { kinds, recordOf } from '../../../../support/views/records.ts'
import { RecordsDouble } from '../../../../support/views/records-double.ts'

function stage(records: readonly ObjectRecord[], hidden: readonly string[] = []) {
  const double = new RecordsDouble()
  for (const record of records) double.put(record)
  const visibility = {
    key: '',
    mayList: ({ key }: { key: string }) => !hidden.includes(key),
    mayListEvents: () => true,
    mayName: () => true,
  }
  const forest = new Forest(
    { records: double, visibility, clock: new ManualClock(), side: 'argo' },
    readQuery(Buffer.from('{"view":"tree"}')),
  )
  forest.start()
  double.onChange((change) => forest.change(change))
  return { records: double, parent: (uid: string) => forest.node(uid)?.parent?.id, forest }
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
  const { parent, records, forest } = stage([set, recordOf({ uid: 'pod', owner: set })], ['apps/ReplicaSet'])
  let touched = 0
  forest.listeners.add({ touched: () => touched++, rebundled: () => touched++, settled: () => touched++ })
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
  t.equal(stage([statefulSet, claim], ['apps/StatefulSet']).parent('data-db-0'), '')
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

t.test('what hangs below a cycle, and a long chain', async (t) => {
  const chain = Array.from({ length: 5000 }, (_, i) => {
    const above = String(i + 1)
    return recordOf({
      uid: String(i),
      owner: { uid: above, kind: 'Pod', name: above },
      verdict: i === 0 ? 'Degraded' : '',
    })
  })
  const top = recordOf({ uid: '5000', owner: { uid: '4990', kind: 'Pod', name: '4990' } })
  const { parent, forest, records } = stage([...chain, top])
  t.equal(parent('4990'), '')
  t.equal(parent('0'), '1')
  t.equal(forest.node('4990')?.total, 5)
  records.put(recordOf({ uid: '0', verdict: 'Degraded' }))
  t.equal(forest.node('4990')?.total, 0)
})

t.test('what it takes room for: what waits for its place too, and what is in a group, shown or not', async (t) => {
  const records = new RecordsDouble()
  for (let i = 0; i < 1000; i++) records.put(recordOf({ uid: `${i}` }))
  const visibility = { key: '', mayList: () => true, mayListEvents: () => true, mayName: () => true }
  const clock = new ManualClock()
  const ticking = { now: () => clock.now() + ticks++, after: clock.after.bind(clock) }
  let ticks = 0
  const query = readQuery(Buffer.from('{"view":"tree","scope":{"environment":"1/none"}}'))
  const forest = new Forest({ records, visibility, clock: ticking, side: 'argo' }, query)
  forest.start()
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

import t from 'tap'
import { TokenCallCounts } from '../../../../../../src/kas/servers/agents/limits/token-call-counts.ts'
import { TokenCallReports } from '../../../../../../src/kas/servers/agents/limits/token-call-reports.ts'
import type { UnaryMethods } from '../../../../../../src/proto/unary.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { FakePeers } from '../../../peers/fake-peers.ts'

const minute = (clock: ManualClock) => Math.floor(clock.now() / 60_000)

t.test('calls are counted by token and clock minute, with those that peers report', async (t) => {
  const clock = new ManualClock()
  const counts = new TokenCallCounts(clock)
  t.strictSame([counts.add('a'), counts.add('a'), counts.add('b')], [1, 2, 1])
  counts.merge('kas-1', { minute: minute(clock), counts: new Map([['a', 10]]) })
  counts.merge('kas-2', { minute: minute(clock), counts: new Map([['a', 100]]) })
  t.strictSame([counts.add('a'), counts.add('b')], [113, 2])
  counts.merge('kas-1', { minute: minute(clock), counts: new Map([['a', 20]]) })
  counts.merge('kas-1', { minute: minute(clock), counts: new Map([['b', 5]]) })
  t.strictSame([counts.add('a'), counts.add('b')], [124, 8], 'a later report replaces an earlier one, by token')
  for (const other of [-1, 1]) counts.merge('kas-1', { minute: minute(clock) + other, counts: new Map([['a', 999]]) })
  t.equal(counts.add('a'), 125, 'another minute than ours')
  clock.advance(60_000)
  t.strictSame([counts.add('a'), counts.add('b')], [1, 1])
})

t.test('what is reported: busy tokens, once for each count', async (t) => {
  const clock = new ManualClock()
  const counts = new TokenCallCounts(clock)
  const add = (hash: string, calls: number) => {
    for (let i = 0; i < calls; i++) counts.add(hash)
  }
  add('a', 3)
  add('b', 5)
  add('c', 4)
  t.equal(counts.changes(6), undefined)
  t.strictSame(
    [...(counts.changes(4)?.counts ?? [])],
    [
      ['b', 5],
      ['c', 4],
    ],
  )
  t.equal(counts.changes(4), undefined)
  add('a', 1)
  t.strictSame(counts.changes(4), { minute: minute(clock), counts: new Map([['a', 4]]) })
  for (let i = 0; i < 3000; i++) add(`x${i}`, 1)
  t.equal(counts.changes(1)?.counts.size, 1000)
  clock.advance(60_000)
  t.equal(counts.changes(1), undefined)
})

t.test('tokens are bounded: those beyond pass', async (t) => {
  const counts = new TokenCallCounts(new ManualClock())
  for (let i = 0; i < 100_000; i++) counts.add(`x${i}`)
  for (let i = 0; i < 3; i++) t.equal(counts.add('late'), 1)
  t.equal(counts.add('x0'), 2)
})

t.test('made-up tokens are counted, take no room from good ones and are not reported', async (t) => {
  const clock = new ManualClock()
  const counts = new TokenCallCounts(clock)
  for (let i = 0; i < 200_000; i++) {
    counts.add(`made-up ${i}`)
    counts.refused(`made-up ${i}`)
  }
  t.strictSame([counts.add('good'), counts.add('good')], [1, 2])
  t.equal(counts.add('made-up 199999'), 2)
  t.equal(counts.add('made-up 0'), 1, 'it has been forgotten')
  counts.refused('made-up 0')
  t.strictSame(counts.changes(1)?.counts, new Map([['good', 2]]))
  clock.advance(60_000)
  t.equal(counts.add('made-up 199999'), 1)
})

t.test('replicas report to one another: a limit holds over all of them', async (t) => {
  const clock = new ManualClock()
  const limit = 1000
  const [busy, quiet] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [string, string]
  const replicas = ['kas-0', 'kas-1', 'kas-2'].map((name) => {
    const counts = new TokenCallCounts(clock)
    const received: string[] = []
    const merge: TokenCallCounts['merge'] = (by, report) => {
      for (const hash of report.counts.keys()) received.push(`${by} ${hash}`)
      counts.merge(by, report)
    }
    const peers = new Map<string, UnaryMethods>()
    const reports = new TokenCallReports(
      { counts: { changes: (from) => counts.changes(from), merge }, peers: new FakePeers(peers), name, clock },
      { callsPerTokenPerMinute: limit },
    )
    return { name, counts, received, peers, reports }
  })
  for (const { name, peers } of replicas) {
    for (const other of replicas) if (other.name !== name) peers.set(other.name, other.reports.replicaMethods)
  }
  for (const { reports } of replicas) await reports.start()
  const passed = { a: 0, quiet: 0 }
  for (let second = 0; second < 60; second++) {
    for (const { counts } of replicas) {
      for (let i = 0; i < 20; i++) if (counts.add(busy) <= limit) passed.a++
      if (second % 10 === 0 && counts.add(quiet) <= limit) passed.quiet++
    }
    clock.advance(second < 59 ? 1000 : 0)
    await new Promise(setImmediate)
  }
  t.comment(`${passed.a} of 3,600 calls of one token passed a limit of ${limit}`)
  t.ok(passed.a >= limit)
  t.ok(passed.a <= limit * 1.2, 'each would have let so many pass by itself')
  t.equal(passed.quiet, 18)
  t.strictSame(
    replicas.map(({ received }) => [...new Set(received)].toSorted()),
    replicas.map(({ name }) => replicas.filter((one) => one.name !== name).map((one) => `${one.name} ${busy}`)),
    'each gets a report of the busy one from each peer',
  )
  for (const { reports } of replicas) await reports.stop()
  t.equal(clock.pending, 0)
})

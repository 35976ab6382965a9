import t from 'tap'
import { TimeSlices } from '../../../../../../src/agentk/modules/views/store/time-slices.ts'
import { Family, Node } from '../../../../../../src/agentk/modules/views/tree/forest-node.ts'
import { Scans } from '../../../../../../src/agentk/modules/views/tree/scans.ts'
import { Page, type PageWanted } from '../../../../../../src/agentk/modules/views/view/pages.ts'
import type { Clock } from '../../../../../../src/lib/clock.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { Seeded } from '../../../../../support/seeded.ts'

/** Each read of a record takes `lookMs`, so long work takes long. */
class WorkClock implements Clock {
  readonly manual = new ManualClock()
  lookMs = 0
  looks = 0

  now(): number {
    this.looks++
    this.manual.advance(this.lookMs)
    return this.manual.now()
  }

  after(ms: number, action: () => void): () => void {
    return this.manual.after(ms, action)
  }
}

function stage(count: number, limit: number, more: Partial<PageWanted> = {}) {
  const wanted = { limit, ...more }
  const clock = new WorkClock()
  const root = new Node({ what: 'root', id: '', kind: '', name: '', namespace: '' })
  const family = new Family(root, 'Pod', false)
  root.addFamily(family)
  const node = (name: string, total = 0) => {
    const made = new Node({ what: 'placeholder', id: name, kind: 'Pod', name, namespace: '' })
    Object.assign(made, { own: total, total })
    family.add(made)
    return made
  }
  const nodes = Array.from({ length: count }, (_, i) => node(`n${String(i).padStart(6, '0')}`))
  let scanned = 0
  const turns = new TimeSlices(clock)
  const scans = new Scans(clock, (step, done) => turns.run('', step, done))
  const page = new Page(scans, { node: root, kind: undefined }, { offset: 0, ...wanted }, () => scanned++)
  const order = () => page.order.map(({ id }) => Number(id.slice(1)))
  const remove = (one: Node) => {
    family.delete(one)
    page.touch(one)
  }
  return { clock, family, node, nodes, page, order, remove, scanned: () => scanned }
}

t.test('the first rows; what comes and goes is placed among them without a scan', async (t) => {
  const { page, order, node, nodes, remove, clock, family } = stage(1000, 3)
  page.update(1000)
  t.strictSame(order(), [0, 1, 2])
  t.equal(page.size, 1000)
  const looks = clock.looks
  remove(nodes[1] as Node)
  const worse = node('n2000', 5)
  page.touch(worse)
  page.update(1000)
  t.strictSame(order(), [2000, 0, 2])
  family.setSeverities(worse, 0, 0)
  page.touch(worse)
  page.update(1000)
  t.strictSame(order(), [0, 2, 3], 'it ranks behind those that are known')
  t.equal(clock.looks, looks, 'nothing was looked through')
})

t.test('once the spare rows are used up, all are looked through', async (t) => {
  const { page, order, nodes, remove, clock } = stage(1000, 3)
  page.update(1000)
  const looks = clock.looks
  for (const one of nodes.slice(0, 3)) remove(one)
  page.update(1000)
  t.strictSame(order(), [3, 4, 5])
  t.equal(clock.looks, looks)
  remove(nodes[3] as Node)
  page.update(1000)
  t.strictSame(order(), [4, 5, 6])
  t.ok(clock.looks > looks)
})

t.test('a long scan yields, and what comes and goes meanwhile counts', async (t) => {
  const { page, order, node, nodes, remove, clock, scanned } = stage(10_000, 3)
  clock.lookMs = 5
  page.update(1000)
  t.notOk(page.isScanned)
  clock.manual.advance(0)
  remove(nodes[0] as Node)
  page.touch(node('n777777', 6))
  clock.manual.advance(100_000)
  t.equal(scanned(), 1)
  t.strictSame(order(), [777777, 1, 2])
})

t.test('a scan that runs is not ended by what changes: it is shown, and all are looked through again', async (t) => {
  const { page, order, node, clock, scanned, family } = stage(10_000, 3)
  clock.lookMs = 1
  page.update(1000)
  let turns = 0
  for (; scanned() === 0 && turns < 5000; turns++) {
    page.scanAnew()
    clock.manual.advance(1)
  }
  t.ok(turns < 5000, `shown after ${turns} turns`)
  t.ok(page.isScanned)
  family.setSeverities(node('n999999'), 6, 6)
  page.update(1000)
  clock.manual.advance(100_000)
  page.update(1000)
  t.strictSame(order(), [999999, 0, 1])
})

t.test('scans take a tenth of the time', async (t) => {
  const { page, order, nodes, remove, clock, scanned } = stage(10_000, 3)
  clock.lookMs = 5
  page.update(1000)
  const start = clock.manual.now()
  clock.manual.advance(100_000)
  const tookMs = clock.manual.now() - start - 100_000
  t.ok(tookMs >= 0)
  for (const one of nodes.slice(0, 4)) remove(one)
  page.update(1000)
  t.strictSame(order(), [4, 5], 'what is known meanwhile is right')
  clock.manual.advance(100_000)
  t.strictSame(order(), [4, 5, 6])
  t.equal(scanned(), 2)
  for (const one of nodes.slice(4, 8)) remove(one)
  page.update(1000)
  clock.manual.advance(100)
  t.strictSame(order(), [8, 9], 'not yet')
  clock.manual.advance(100_000)
  t.strictSame(order(), [8, 9, 10])
})

t.test('whatever comes and goes, it is what a look at all would say', async (t) => {
  const random = Seeded.for(t)
  const { page, family, node, remove } = stage(0, 5)
  let next = 0
  for (let i = 0; i < 3000; i++) {
    const one = family.members[random.int(Math.max(1, family.members.length))]
    const choice = random.int(10)
    if (!one || choice < (i % 600 < 300 ? 5 : 2)) page.touch(node(`n${next++ % 997}-${next}`, random.int(7)))
    else if (choice < 7) remove(one)
    else {
      family.setSeverities(one, random.int(7), random.int(7))
      page.touch(one)
    }
    if (random.chance(0.3)) continue
    page.update(1000)
    const sorted = [...family.members].sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1))
    if (page.order.some((entry, j) => entry !== sorted[j]) || page.order.length !== Math.min(5, sorted.length)) {
      t.strictSame(
        page.order.map(({ id }) => id),
        sorted.slice(0, 5).map(({ id }) => id),
        `after ${i} steps`,
      )
      return
    }
  }
  t.pass()
})

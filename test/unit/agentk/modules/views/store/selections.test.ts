import t from 'tap'
import type { LabelSelector } from '../../../../../../src/agentk/modules/views/projection/projector.ts'
import type { RecordChange } from '../../../../../../src/agentk/modules/views/store/record.ts'
import {
  Selections,
  type SelectionsOptions,
  selectionsDefaults,
  type Taker,
} from '../../../../../../src/agentk/modules/views/store/selections.ts'
import { sliceMs, TimeSlices } from '../../../../../../src/agentk/modules/views/store/time-slices.ts'
import type { Clock } from '../../../../../../src/lib/clock.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { recordOf } from '../../../../../support/views/records.ts'
import { RecordsDouble } from '../../../../../support/views/records-double.ts'
import { WorkClock } from '../../../../../support/work-clock.ts'

/** Labels that count their reads: each comparison with a selector of one label reads once. */
class CountedLabels extends Map<string, string> {
  static reads = 0

  override get(name: string): string | undefined {
    CountedLabels.reads++
    return super.get(name)
  }
}

const app = (value: string): LabelSelector => ({ labels: [['app', value]], expressions: [] })
const everything: LabelSelector = { labels: [], expressions: [] }

/** Returns one more view of the user. */
const takerOf = (user: string, { onChange = () => {}, onRoom = () => {} } = {}): Taker => ({
  user,
  onChange,
  onRoom,
})

function stage(options: Partial<SelectionsOptions> = {}, clock: Clock = new ManualClock()) {
  CountedLabels.reads = 0
  const turns = new TimeSlices(clock)
  const records = new RecordsDouble()
  const selections = new Selections({ records, turns }, { ...selectionsDefaults, ...options })
  records.onChange((change: RecordChange) => selections.change(change))
  const pod = (uid: string, value: string, namespace = 'shop', Labels = CountedLabels) =>
    records.put(recordOf({ uid, namespace, labels: new Labels([['app', value]]) }))
  const take = (selector: LabelSelector, taker: Taker = takerOf('ann')) => selections.take('shop', selector, taker)
  return { selections, records, pod, take, turns }
}

const names = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `p${1000 + from + i}`)

t.test('one for each selector and namespace: a Pod is compared with it once', async (t) => {
  const { pod, take, selections, records } = stage()
  for (const [i, uid] of names(0, 1500).entries()) pod(uid, `a${i % 10}`)
  for (let i = 0; i < 199; i++) t.ok(take(app(`a${i % 10}`)))
  t.equal(selections.size, 10)
  t.equal(CountedLabels.reads, 10 * 1500)
  const [first] = names(0, 1)
  pod(first as string, 'a1')
  t.equal(CountedLabels.reads, 10 * 1500 + 10, 'changed labels are compared with each')
  records.put({ ...(records.get(first as string) as ReturnType<typeof recordOf>), facts: ['1/1 ready'] })
  t.equal(CountedLabels.reads, 10 * 1500 + 10, 'the same labels with none')
  pod('elsewhere', 'a1', 'bank')
  t.equal(CountedLabels.reads, 10 * 1500 + 10)
})

t.test('members follow the Pods, in order, and whoever shows them is called', async (t) => {
  const { pod, take, records, selections } = stage()
  let calls = 0
  const onChange = () => {
    calls++
  }
  const taker = takerOf('ann', { onChange })
  const selection = take(app('web'), taker)
  pod('b', 'web')
  pod('a', 'web')
  pod('c', 'db')
  t.strictSame(selection?.members, ['a', 'b'])
  pod('b', 'db')
  pod('c', 'web')
  records.delete('a')
  t.strictSame(selection?.members, ['c'])
  t.equal(calls, 5)
  if (selection) selections.release(selection, taker)
  pod('d', 'web')
  t.equal(calls, 5)
  t.equal(selections.size, 0)
})

t.test('the least are kept; where they went, others come', async (t) => {
  const random = new Seeded(Number(process.env.KAS_SEED ?? 5))
  const { pod, take, records } = stage({ maxMembers: 20 })
  const selection = take(app('web'))
  const all = names(0, 60)
  for (let step = 0; step < 2000; step++) {
    const uid = random.pick(all)
    if (random.chance(step % 400 < 200 ? 0.3 : 0.7)) records.delete(uid)
    else pod(uid, random.chance(0.8) ? 'web' : 'db')
    const web = all.filter((one) => records.get(one)?.labels.get('app') === 'web')
    const members = selection?.members ?? []
    if (!t.strictSame(members, web.slice(0, members.length), `step ${step}`)) return
    if (!t.ok(members.length >= Math.min(web.length, 10), `step ${step}: ${members.length} of ${web.length}`)) return
  }
})

t.test('it is built in slices, by turns with others', async (t) => {
  const clock = new WorkClock()
  const comparisonMs = 0.1
  class SlowLabels extends CountedLabels {
    override get(name: string): string | undefined {
      clock.work(comparisonMs)
      return super.get(name)
    }
  }
  const { pod, take, turns } = stage({}, clock)
  for (const uid of names(0, 1500)) pod(uid, 'web', 'shop', SlowLabels)
  const selections = Array.from({ length: 20 }, (_, i) => take(app(i === 19 ? 'web' : `a${i}`)))
  let turnsOfOthers = 0
  while (turns.size > 0) {
    turns.run(
      'another',
      () => false,
      () => turnsOfOthers++,
    )
    clock.turn()
  }
  t.equal(selections[19]?.members.length, 1500)
  t.equal(CountedLabels.reads, 20 * 1500)
  t.ok(clock.longestMs <= 2 * sliceMs + 16 * comparisonMs, `${clock.longestMs} ms without a yield`)
  t.ok(turnsOfOthers >= (20 * 1500 * comparisonMs) / (3 * sliceMs), `others had ${turnsOfOthers} turns`)
})

t.test('so many of all, so many of one user', async (t) => {
  const { take, selections } = stage({ maxSelections: 5, maxSelectionsPerUser: 3 })
  const mallory = takerOf('mallory')
  const taken = ['a', 'b', 'c'].map((value) => take(app(value), mallory))
  t.ok(taken.every(Boolean))
  t.equal(take(app('d'), takerOf('mallory')), undefined)
  t.ok(take(app('a'), takerOf('mallory')), 'what she has already')
  t.ok(take(app('d'), takerOf('bob')))
  t.equal(take(app('d'), takerOf('mallory')), undefined, 'what another has counts for her too')
  t.ok(take(everything, takerOf('agent')))
  t.equal(take(app('f'), takerOf('carl')), undefined)
  t.ok(take(app('a'), takerOf('carl')), 'what is there takes no more room')
  const [, b] = taken
  if (b) selections.release(b, mallory)
  t.ok(take(app('f'), takerOf('mallory')))
})

t.test('one with many values counts as several', async (t) => {
  const { take, selections } = stage({ maxSelections: 9, maxSelectionsPerUser: 8 })
  const values = (count: number, key: string): LabelSelector => ({
    labels: [],
    expressions: [{ key, operator: 'NotIn', values: Array.from({ length: count - 1 }, (_, i) => `${i}`) }],
  })
  const mallory = takerOf('mallory')
  const three = take(values(1025, 'a'), mallory)
  t.equal(three?.weight, 3)
  t.ok(take(values(512, 'b'), mallory))
  t.equal(take(values(2049, 'c'), mallory), undefined, 'eight for her are not nine')
  t.ok(take(values(2048, 'd'), mallory))
  t.equal(take(values(513, 'e'), takerOf('bob')), undefined)
  t.ok(take(values(512, 'e'), takerOf('bob')))
  t.equal(selections.size, 9)
  if (three) selections.release(three, mallory)
  t.equal(selections.size, 6)
})

t.test('who was refused is called once when there is room for him', async (t) => {
  const { take, selections } = stage({ maxSelections: 3, maxSelectionsPerUser: 2 })
  const calls: string[] = []
  const caller = (user: string) => takerOf(user, { onRoom: () => calls.push(user) })
  const [mallory, bob, agent] = [caller('mallory'), caller('bob'), caller('agent')]
  const [a, b] = [take(app('a'), mallory), take(app('b'), mallory)]
  t.equal(take(app('c'), mallory), undefined)
  t.ok(take(app('c'), bob))
  t.equal(take(app('d'), bob), undefined)
  t.equal(take(app('d'), agent), undefined)
  t.ok(take(app('a'), agent))
  if (a) selections.release(a, mallory)
  t.strictSame(calls, ['mallory'], 'the agent has it still: there is room for what others have, and for her alone')
  t.ok(take(app('c'), mallory))
  t.equal(take(app('e'), mallory), undefined)
  if (b) selections.release(b, mallory)
  t.strictSame(calls.splice(0).sort(), ['agent', 'bob', 'mallory', 'mallory'])
  t.ok(take(app('d'), bob))
  t.equal(take(app('f'), agent), undefined)
  selections.leave(agent)
  t.strictSame(calls, [])
})

t.test('members that go while it fills make room for those that were passed over', async (t) => {
  const clock = new WorkClock()
  class SlowLabels extends CountedLabels {
    override get(name: string): string | undefined {
      clock.work(1)
      return super.get(name)
    }
  }
  const { pod, take, turns, records } = stage({ maxMembers: 20 }, clock)
  const all = names(0, 200)
  for (const uid of all) pod(uid, 'web', 'shop', SlowLabels)
  const selection = take(app('web'))
  while ((selection?.members.length ?? 0) < 20) clock.turn()
  clock.turn()
  t.ok(turns.size > 0, 'it fills still')
  for (const uid of all.slice(0, 15)) records.delete(uid)
  while (turns.size > 0) clock.turn()
  t.strictSame(selection?.members, all.slice(15, 35))
})

import t from 'tap'
import type { LabelSelector } from '../../../../../../src/agentk/modules/views/projection/projector.ts'
import { Selections, selectionsDefaults } from '../../../../../../src/agentk/modules/views/store/selections.ts'
import { TimeSlices } from '../../../../../../src/agentk/modules/views/store/time-slices.ts'
import { ViewLinks } from '../../../../../../src/agentk/modules/views/view/view-links.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { forestOf } from '../../../../../support/views/forest-of.ts'
import { kinds, recordOf } from '../../../../../support/views/records.ts'
import { RecordsDouble } from '../../../../../support/views/records-double.ts'

const app = (value: string): LabelSelector => ({ labels: [['app', value]], expressions: [] })

function stage(maxSelections: number) {
  const clock = new ManualClock()
  const records = new RecordsDouble()
  const selections = new Selections({ records, turns: new TimeSlices(clock) }, { ...selectionsDefaults, maxSelections })
  records.onChange((change) => selections.change(change))
  const services = ['a', 'b', 'c'].map((value) =>
    recordOf({ uid: `service-${value}`, kind: kinds.service, selector: app(value) }),
  )
  for (const service of services) records.put(service)
  for (const value of ['a', 'b', 'c']) records.put(recordOf({ uid: `pod-${value}`, labels: new Map([['app', value]]) }))
  const forest = forestOf({ records, query: '{"view":"tree"}', clock })
  clock.advance(1000)
  /** A view that shows the links of the services at these places. */
  const view = (maxLinks = 1000) => {
    const calls = { count: 0 }
    const links = new ViewLinks({ records, selections, user: 'ann', maxLinks: () => maxLinks }, () => calls.count++)
    const show = (...open: readonly number[]) =>
      links.update(
        forest,
        open.map((i) => services[i] as (typeof services)[number]),
      )
    return { links, calls, show, of: (value: string) => links.of(`service-${value}`) }
  }
  return { selections, view }
}

t.test('what was refused for want of room is asked for again once there is room', async (t) => {
  const { selections, view } = stage(2)
  const [first, second] = [view(), view()]
  first.show(0, 1)
  second.show(2)
  t.strictSame(second.of('c'), [], 'there is no room')
  const before = second.calls.count
  second.show(2)
  t.equal(second.calls.count, before)
  first.show(0)
  t.ok(second.calls.count > before, 'it is called where there is room')
  second.show(2)
  t.strictSame(second.of('c'), [['selects', 'pod-c', 'Pod', 'shop', 'pod-c']])
  first.show(0, 1)
  t.strictSame(first.of('b'), [])
  second.links.close()
  first.show(0, 1)
  t.strictSame(first.of('b'), [['selects', 'pod-b', 'Pod', 'shop', 'pod-b']])
  first.links.close()
  t.ok(selections.isEmpty, 'nothing is kept')
})

t.test('so many links of all nodes together, and others where some have gone', async (t) => {
  const { view } = stage(10)
  const one = view(2)
  one.show(0, 1, 2)
  t.equal(one.links.count, 2)
  t.strictSame(
    ['a', 'b', 'c'].map((value) => one.of(value).length),
    [1, 1, 0],
  )
  one.show(1, 2)
  t.strictSame(
    ['a', 'b', 'c'].map((value) => one.of(value).length),
    [0, 1, 1],
  )
  one.links.close()
  t.equal(one.links.count, 0)
})

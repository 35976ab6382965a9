import t from 'tap'
import type { Visibility } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { type CountedView, leastRows, ViewLimits } from '../../../../../../src/agentk/modules/views/view/view-limits.ts'

const options = {
  maxViews: 6,
  maxVisibilities: 3,
  maxVisibilitiesPerUser: 2,
  maxAsked: 5,
  maxAskedPerUser: 3,
  maxRows: 5000,
  maxRowsPerUser: 3000,
  maxLinks: 500,
  maxLinksPerUser: 200,
}
const seeing = (key: string): Visibility => ({
  mayList: () => true,
  mayListWithin: () => true,
  mayListEvents: () => true,
  mayName: () => true,
  key,
})

function start() {
  const views: {
    user: string
    visibility: Visibility | undefined
    view: { asked: number; rows: number; links: number }
  }[] = []
  const limits = new ViewLimits(views, options)
  const enter = (user: string): (typeof views)[number] => {
    const opened = { user, visibility: undefined, view: { asked: 0, rows: 0, links: 0 } }
    views.push(opened)
    return opened
  }
  const see = (opened: CountedView & { visibility: Visibility | undefined }, key: string) => {
    limits.checkVisibility(opened, seeing(key))
    opened.visibility = seeing(key)
  }
  return { views, limits, enter, see }
}

t.test('rights: equal ones count once, one user has a share of them', async (t) => {
  const { views, enter, see } = start()
  const [one, two, three] = [enter('ann'), enter('ann'), enter('ann')]
  see(one, 'a')
  see(two, 'b')
  see(three, 'b')
  t.throws(() => see(three, 'c'), { code: 'TOO_MANY_STREAMS', message: /different rights of one user/ })
  see(one, 'c') // replaces its own rights
  const bob = enter('bob')
  see(bob, 'd')
  const carl = enter('carl')
  t.throws(() => see(carl, 'e'), { code: 'TOO_MANY_STREAMS', message: /different rights of viewers/ })
  see(carl, 'd')
  views.splice(views.indexOf(one), 1)
  see(bob, 'e')
})

t.test('events that are asked for: of all, and of one user', async (t) => {
  const { limits, enter } = start()
  const [ann, other, carl] = [enter('ann'), enter('ann'), enter('carl')]
  ann.view.asked = 2
  t.ok(limits.mayAsk('ann'))
  other.view.asked = 1
  t.notOk(limits.mayAsk('ann'))
  t.ok(limits.mayAsk('bob'))
  carl.view.asked = 2
  for (const user of ['bob', 'carl']) t.notOk(limits.mayAsk(user))
})

t.test('rows: of all, and of one user; a view has some, however many others have', async (t) => {
  const { limits, enter } = start()
  const [ann, other, bob, carl] = [enter('ann'), enter('ann'), enter('bob'), enter('carl')]
  t.equal(limits.rowsFor(ann), 2000)
  other.view.rows = 2000
  t.equal(limits.rowsFor(ann), 1000)
  ann.view.rows = 1000
  t.equal(limits.rowsFor(ann), 1000, 'its own are no others')
  t.equal(limits.rowsFor(bob), 2000)
  bob.view.rows = 1500
  t.equal(limits.rowsFor(carl), 500)
  carl.view.rows = 2000
  t.equal(limits.rowsFor(bob), leastRows)
})

t.test('links: of all, and of one user', async (t) => {
  const { limits, enter } = start()
  const [ann, other, bob, carl] = [enter('ann'), enter('ann'), enter('bob'), enter('carl')]
  other.view.links = 150
  ann.view.links = 40
  t.equal(limits.linksFor(ann), 50, 'its own are no others')
  for (const one of [bob, carl]) one.view.links = 200
  t.equal(limits.linksFor(ann), 0)
  t.equal(limits.linksFor(carl), 110)
})

import t from 'tap'
import type { Visibility } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { leastRows, type Seat, ViewRoom } from '../../../../../../src/agentk/modules/views/view/view-room.ts'

const options = {
  maxViews: 6,
  maxViewsPerUser: 4,
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
  const seats: {
    user: string | undefined
    visibility: Visibility | undefined
    asked: number
    rows: number
    links: number
  }[] = []
  const room = new ViewRoom(seats, options)
  const enter = (user: string | undefined): (typeof seats)[number] => {
    room.checkView(user)
    const seat = { user, visibility: undefined, asked: 0, rows: 0, links: 0 }
    seats.push(seat)
    return seat
  }
  const see = (seat: Seat & { visibility: Visibility | undefined }, key: string) => {
    room.checkVisibility(seat, seeing(key))
    seat.visibility = seeing(key)
  }
  return { seats, room, enter, see }
}

t.test('views: of all, and of one user', async (t) => {
  const { enter } = start()
  for (let i = 0; i < 4; i++) enter('ann')
  t.throws(() => enter('ann'), { code: 'TOO_MANY_STREAMS', message: /views of one user/ })
  for (let i = 0; i < 2; i++) enter(undefined)
  t.throws(() => enter('bob'), { code: 'TOO_MANY_STREAMS', message: /views/ })
})

t.test('rights: equal ones count once, one user has a share of them', async (t) => {
  const { seats, enter, see } = start()
  const [one, two, three] = [enter('ann'), enter('ann'), enter('ann')]
  see(one, 'a')
  see(two, 'b')
  see(three, 'b')
  t.throws(() => see(three, 'c'), { code: 'TOO_MANY_STREAMS', message: /different rights of one user/ })
  see(one, 'c') // in place of its own
  const bob = enter('bob')
  see(bob, 'd')
  const carl = enter('carl')
  t.throws(() => see(carl, 'e'), { code: 'TOO_MANY_STREAMS', message: /different rights of viewers/ })
  see(carl, 'd')
  seats.splice(seats.indexOf(one), 1)
  see(bob, 'e')
})

t.test('events that are asked for: of all, and of one user', async (t) => {
  const { room, enter } = start()
  const [ann, other, agent] = [enter('ann'), enter('ann'), enter(undefined)]
  ann.asked = 2
  t.ok(room.mayAsk('ann'))
  other.asked = 1
  t.notOk(room.mayAsk('ann'))
  t.ok(room.mayAsk('bob'))
  agent.asked = 2
  for (const user of ['bob', undefined]) t.notOk(room.mayAsk(user))
})

t.test('rows: of all, and of one user; a view has some, however many others have', async (t) => {
  const { room, enter } = start()
  const [ann, other, bob, agent] = [enter('ann'), enter('ann'), enter('bob'), enter(undefined)]
  t.equal(room.rowsFor(ann), 2000)
  other.rows = 2000
  t.equal(room.rowsFor(ann), 1000)
  ann.rows = 1000
  t.equal(room.rowsFor(ann), 1000, 'its own are no others')
  t.equal(room.rowsFor(bob), 2000)
  bob.rows = 1500
  t.equal(room.rowsFor(agent), 500)
  agent.rows = 2000
  t.equal(room.rowsFor(bob), leastRows)
})

t.test('links: of all, and of one user', async (t) => {
  const { room, enter } = start()
  const [ann, other, agent] = [enter('ann'), enter('ann'), enter(undefined)]
  other.links = 150
  ann.links = 40
  t.equal(room.linksFor(ann), 50, 'its own are no others')
  agent.links = 400
  t.equal(room.linksFor(ann), 0)
  t.equal(room.linksFor(agent), 310)
})

t.test('those let in as the agent are no one user', async (t) => {
  const { enter, see } = start()
  for (const key of ['a', 'b', 'c']) see(enter(undefined), key)
  t.throws(() => see(enter(undefined), 'd'), { code: 'TOO_MANY_STREAMS' })
})

import t from 'tap'
import { KasError } from '../../../src/lib/errors.ts'
import { type Hold, type RoomUser, SharedRoom, SharedRooms } from '../../../src/lib/shared-room.ts'

const name = 'views_of_agent'

function ground(limit: number) {
  const ended: string[] = []
  const reasons: string[] = []
  let isEmpty = true
  const room = new SharedRoom({ name, limit }, () => {
    isEmpty = true
  })
  const enter = (word: string, holder: RoomUser | string, amount?: number): Hold => {
    isEmpty = false
    const end = (reason: KasError) => {
      ended.push(word)
      reasons.push(reason.message)
    }
    const who = typeof holder === 'string' ? { key: holder } : holder
    return room.enter(who, { what: 'views', end, ...(amount === undefined ? {} : { amount }) })
  }
  return { room, enter, ended, reasons, isEmpty: () => isEmpty }
}

t.test('one alone may have all, and no more', async (t) => {
  const { enter, ended } = ground(3)
  for (const word of ['1', '2', '3']) enter(word, 'a')
  t.throws(() => enter('4', 'a'), {
    code: 'TOO_MANY_STREAMS',
    message: 'Too many views, allowed: 3. You hold 3 of them: end some, or try again later',
  })
  t.same(ended, [])
})

t.test('where it is full the one that has most makes room, the newest of its own first, and is told', async (t) => {
  const { enter, ended, reasons } = ground(4)
  enter('b', 'b')
  for (const word of ['a1', 'a2', 'a3']) enter(word, 'a')
  enter('c', 'c')
  t.same(ended, ['a3'])
  t.same(reasons, ['Too many views, allowed: 4. You hold 3 of them: end some, or try again later'])
})

t.test('nobody makes room for one who would have as much: parts come to rest', async (t) => {
  const { enter, ended } = ground(4)
  for (const word of ['a1', 'a2', 'a3', 'a4']) enter(word, 'a')
  enter('b1', 'b')
  enter('b2', 'b')
  t.throws(() => enter('b3', 'b'), { message: /You hold 2 of them/ })
  t.throws(() => enter('a5', 'a'), { message: /You hold 2 of them/ })
  t.same(ended, ['a4', 'a3'])
  enter('c', 'c')
  t.throws(() => enter('c2', 'c'), { message: /You hold 1 of them/ })
  enter('d', 'd')
  t.throws(() => enter('e', 'e'), { message: 'Too many views, allowed: 4. Please try again later' })
  t.equal(ended.length, 4)
})

t.test('one project with many users, and one user with many projects, count as one', async (t) => {
  for (const holders of [
    Array.from({ length: 6 }, (_, i) => ({ key: 'project', userKey: `user-${i}` })),
    Array.from({ length: 6 }, (_, i) => ({ key: `project-${i}`, userKey: 'user' })),
    [...Array.from({ length: 5 }, (_, i) => ({ key: `project-${i}`, userKey: 'user' })), { key: 'user' }],
  ]) {
    const { enter, ended } = ground(6)
    for (const [i, holder] of holders.entries()) enter(String(i), holder)
    t.throws(() => enter('more', holders[0] as RoomUser), { message: /You hold 6 of them/ })
    enter('one', 'other')
    enter('two', 'other')
    t.same(ended, ['5', '4'])
  }
})

t.test('of a project that has most, the user that has most makes room, and not a fellow that came later', async (t) => {
  const { enter, ended } = ground(6)
  for (const word of ['e1', 'e2', 'e3']) enter(word, { key: 'project', userKey: 'eve' })
  enter('a1', { key: 'project', userKey: 'ann' }, 2)
  enter('b1', 'bob')
  enter('c1', 'carl')
  t.same(ended, ['e3'])
  enter('d1', 'dan')
  t.same(ended, ['e3', 'a1'], 'both have two by now: the heavier, as of one holder')
})

t.test('bytes: the heaviest goes, as many as it takes', async (t) => {
  const { enter, ended } = ground(100)
  const light = enter('light', 'a', 0)
  light.take(10)
  enter('heavy', 'a', 0).take(40)
  enter('medium', 'a', 0).take(30)
  const other = enter('other', 'b', 0)
  other.take(20)
  t.same(ended, [])
  other.take(15)
  t.same(ended, ['heavy'])
  t.throws(() => other.take(66), { message: /You hold 35 of them/ }, 'it would have more than anybody')
  t.throws(() => light.take(61), { code: 'TOO_MANY_STREAMS' })
  other.give(1000)
  light.take(60)
  t.throws(() => light.take(1), { message: /You hold 100 of them/ })
})

t.test('who has made room has nothing left, gives nothing back, and gets no more', async (t) => {
  const { enter, room, isEmpty } = ground(2)
  const [first, second] = [enter('1', 'a'), enter('2', 'a')]
  const other = enter('3', 'b')
  second.give(1)
  second.leave()
  t.throws(() => second.take(1), { code: 'TOO_MANY_STREAMS' })
  t.throws(() => enter('4', 'c'), { code: 'TOO_MANY_STREAMS' })
  t.equal(room.size, 2)
  first.leave()
  first.leave()
  enter('4', 'c').leave()
  t.notOk(isEmpty())
  other.leave()
  t.ok(isEmpty())
})

t.test('what ends may leave others at once, and enter again', async (t) => {
  const room = new SharedRoom({ name, limit: 3 })
  const holds: Hold[] = []
  const errors: unknown[] = []
  const enter = (key: string, end: () => void = () => undefined) => {
    const hold = room.enter({ key }, { what: 'views', end })
    holds.push(hold)
  }
  enter('a')
  enter('a')
  enter('a', () => {
    holds[0]?.leave()
    try {
      enter('a')
      enter('a')
    } catch (error) {
      errors.push(error)
    }
  })
  enter('b')
  t.equal(room.size, 3)
  t.ok(errors.every((error) => error instanceof KasError))
})

t.test('agents have rooms of their own, and those that nobody is in are not kept', async (t) => {
  const rooms = new SharedRooms<bigint>({ name, limit: 1 })
  const use = { what: 'views', end: () => t.fail('nobody has to go') }
  const holds = [42n, 43n].map((agentId) => rooms.enter(agentId, { key: 'a' }, use))
  t.throws(() => rooms.enter(42n, { key: 'a' }, use), { code: 'TOO_MANY_STREAMS' })
  t.equal(rooms.size, 2)
  for (const hold of holds) hold.leave()
  t.equal(rooms.size, 0)
})

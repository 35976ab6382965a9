import t from 'tap'
import { maxUnpackingAtOnce, UnpackTurns } from '../../../../src/proto/grpc/unpack-turns.ts'

/** Everything is taken by somebody else; who then has a turn is heard in order. */
function busy() {
  const turns = new UnpackTurns()
  for (let i = 0; i < maxUnpackingAtOnce; i++) void turns.enter({}, {})
  const served: string[] = []
  const ask = (name: string, payer: object, connection: object = {}) =>
    turns.enter(connection, payer).then(
      () => served.push(name),
      (error) => served.push(`${name}: ${error.code}`),
    )
  const done = async () => {
    turns.done()
    await new Promise(setImmediate)
  }
  return { turns, served, ask, done }
}

t.test('a few have a turn at once, others when one is done, and each payer where another had one', async (t) => {
  const { served, ask, done } = busy()
  const [evil, good, other] = [{}, {}, {}]
  for (let i = 0; i < 100; i++) void ask(`evil ${i}`, evil)
  void ask('good 0', good)
  void ask('good 1', good)
  void ask('other 0', other)
  await new Promise(setImmediate)
  t.same(served, [])
  for (let i = 0; i < 6; i++) await done()
  t.same(served, ['evil 0', 'good 0', 'other 0', 'evil 1', 'good 1', 'evil 2'])
  for (let i = 0; i < 97; i++) await done()
  t.equal(served.length, 103)
})

t.test('who has left has no turn; who has one already keeps it', async (t) => {
  const { turns, served, ask, done } = busy()
  const payer = {}
  const [first, second] = [{}, {}]
  void ask('first', payer, first)
  void ask('second', payer, second)
  turns.leave(first)
  await done()
  t.same(served, ['first: CANCELLED', 'second'])
  turns.leave(second)
  await new Promise(setImmediate)
  t.same(served, ['first: CANCELLED', 'second'])
  for (let i = 0; i < maxUnpackingAtOnce; i++) await done()
  for (let i = 0; i < maxUnpackingAtOnce; i++) await turns.enter({}, {})
  void ask('last', payer)
  await new Promise(setImmediate)
  t.same(served, ['first: CANCELLED', 'second'], 'as many as before')
})

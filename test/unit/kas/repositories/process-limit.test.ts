import t from 'tap'
import { ProcessLimit } from '../../../../src/kas/repositories/process-limit.ts'

const tick = () => new Promise(setImmediate)

t.test('works run up to the limit, the rest in order; an abandoned wait costs no turn', async (t) => {
  const limit = new ProcessLimit({ maxRunning: 1, maxWaiting: 2 })
  const how = { source: 'a', signal: new AbortController().signal }
  const order: string[] = []
  const first = Promise.withResolvers<void>()
  const running = limit.run(() => first.promise, how)
  const leaving = new AbortController()
  const left = limit.run(async () => void order.push('left'), { ...how, signal: leaving.signal })
  const second = limit.run(async () => void order.push('second'), how)
  await t.rejects(
    limit.run(async () => undefined, how),
    { message: /more than 2 wait/ },
  )
  leaving.abort(new Error('gone'))
  await t.rejects(left, { message: 'gone' })
  await tick()
  t.same(order, [])
  first.resolve()
  await Promise.all([running, second])
  t.same(order, ['second'])
})

t.test('a failure gives the turn back', async (t) => {
  const limit = new ProcessLimit({ maxRunning: 1, maxWaiting: 0 })
  const how = { source: 'a', signal: new AbortController().signal }
  await t.rejects(
    limit.run(() => Promise.reject(new Error('no')), how),
    { message: 'no' },
  )
  t.equal(await limit.run(async () => 1, how), 1)
})

t.test('sources take turns, and who comes later shares the places of who has many', async (t) => {
  const limit = new ProcessLimit({ maxRunning: 1, maxWaiting: 4 })
  const { signal } = new AbortController()
  const order: string[] = []
  const first = Promise.withResolvers<void>()
  const running = limit.run(() => first.promise, { source: 'many', signal })
  const run = (source: string, name: string) => limit.run(async () => void order.push(name), { source, signal })
  const many = ['1', '2', '3', '4'].map((name) => run('many', `many ${name}`))
  const other = run('other', 'other')
  await t.rejects(many.pop() as Promise<void>, { message: /more than 4 wait/ })
  first.resolve()
  await Promise.all([running, other, ...many])
  t.strictSame(order, ['many 1', 'other', 'many 2', 'many 3'])
})

t.test('one source leaves room for the others', async (t) => {
  const limit = new ProcessLimit({ maxRunning: 3, maxRunningOfSource: 2, maxWaiting: 4 })
  const { signal } = new AbortController()
  const begun: string[] = []
  const fetched = Promise.withResolvers<void>()
  const fetch = (name: string) => {
    const work = async () => {
      begun.push(name)
      await fetched.promise
    }
    return limit.run(work, { source: 'many', signal })
  }
  const fetches = ['1', '2', '3'].map(fetch)
  await limit.run(async () => void begun.push('other'), { source: 'other', signal })
  t.strictSame(begun, ['1', '2', 'other'])
  fetched.resolve()
  await Promise.all(fetches)
  t.strictSame(begun, ['1', '2', 'other', '3'])
})

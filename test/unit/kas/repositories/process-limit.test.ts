import t from 'tap'
import { ProcessLimit } from '../../../../src/kas/repositories/process-limit.ts'

const tick = () => new Promise(setImmediate)

t.test('works run up to the limit, the rest in order; an abandoned wait costs no turn', async (t) => {
  const limit = new ProcessLimit({ maxRunning: 1, maxWaiting: 2 })
  const { signal } = new AbortController()
  const order: string[] = []
  const first = Promise.withResolvers<void>()
  const running = limit.run(() => first.promise, signal)
  const leaving = new AbortController()
  const left = limit.run(async () => void order.push('left'), leaving.signal)
  const second = limit.run(async () => void order.push('second'), signal)
  await t.rejects(
    limit.run(async () => undefined, signal),
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
  const { signal } = new AbortController()
  await t.rejects(
    limit.run(() => Promise.reject(new Error('no')), signal),
    { message: 'no' },
  )
  t.equal(await limit.run(async () => 1, signal), 1)
})

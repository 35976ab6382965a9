import { getEventListeners } from 'node:events'
import t from 'tap'
import { Deadline, withDeadline, within } from '../../../src/lib/deadline.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { Seeded } from '../../support/seeded.ts'

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

t.test(
  'the action runs with a signal that aborts when the time is over, with a reason of its own or a TimeoutError',
  async (t) => {
    const clock = new ManualClock()
    const hang = (signal: AbortSignal) =>
      new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
    t.equal(await withDeadline({ ms: 10, clock }, async () => 'done'), 'done')
    t.equal(clock.pending, 0)
    const late = withDeadline({ ms: 10, clock }, hang)
    const named = withDeadline({ ms: 10, clock, reason: () => new Error('too late') }, hang)
    clock.advance(10)
    await t.rejects(late, { name: 'TimeoutError' })
    await t.rejects(named, { message: 'too late' })
    await t.rejects(
      withDeadline({ ms: 10, clock }, async () => {
        throw new Error('own')
      }),
      { message: 'own' },
    )
    t.equal(clock.pending, 0)
  },
)

t.test('a promise is waited for no longer, and may reject afterwards', async (t) => {
  const clock = new ManualClock()
  const { promise, reject } = Promise.withResolvers<never>()
  const waiting = within(promise, { ms: 5, clock })
  clock.advance(5)
  await t.rejects(waiting, { name: 'TimeoutError' })
  reject(new Error('nobody waits for it'))
  t.equal(await within(Promise.resolve(1), { ms: 5, clock }), 1)
  t.equal(clock.pending, 0)
})

t.test("without a clock it is the system's", async (t) => {
  const never = new Promise<never>(() => undefined)
  const alive = setInterval(() => undefined, 1000) // the timer of the deadline does not keep the process alive
  t.teardown(() => clearInterval(alive))
  await t.rejects(within(never, { ms: 1 }), { name: 'TimeoutError' })
})

t.test(
  'whatever comes in whatever order: it aborts once, for what came first, and nothing is kept after the end',
  async (t) => {
    const seeded = Seeded.for(t)
    for (let round = 0; round < 2000; round++) {
      const clock = new ManualClock(0)
      const others = seeded.list(3, () => new AbortController())
      if (others.length > 0 && seeded.chance(0.1)) others[0]?.abort(0)
      const ms = 1 + seeded.int(20)
      const deadline = new Deadline({
        ms,
        clock,
        signals: [undefined, ...others.map(({ signal }) => signal)],
        reason: () => 'past',
      })
      const { signal } = deadline
      let aborts = 0
      signal.addEventListener('abort', () => aborts++)
      let expected: unknown = signal.aborted ? 0 : undefined
      let dueAt = ms
      let hasEnded = false
      const isOpen = () => expected === undefined && !hasEnded
      for (let step = 0; step < 12; step++) {
        const what = seeded.int(10)
        if (what < 5) {
          const by = seeded.int(6)
          if (isOpen() && clock.now() + by >= dueAt) expected = 'past'
          clock.advance(by)
        } else if (what < 7) {
          const i = seeded.int(others.length)
          const other = others[i]
          if (isOpen() && other && !other.signal.aborted) expected = i
          other?.abort(i)
        } else if (what === 7) {
          deadline.restart()
          if (isOpen()) dueAt = clock.now() + ms
        } else if (what === 8) {
          deadline.end()
          hasEnded = true
        } else if (seeded.chance(0.3)) {
          expected ??= 'by hand'
          deadline.abort('by hand')
        }
        const found = signal.aborted ? signal.reason : undefined
        if (found !== expected || deadline.isPast !== (expected === 'past')) {
          t.strictSame(
            { found, isPast: deadline.isPast },
            { found: expected, isPast: expected === 'past' },
            `round ${round}, step ${step}`,
          )
          return
        }
      }
      deadline.end()
      const kept = clock.pending + others.reduce((sum, other) => sum + listeners(other.signal), 0)
      if (kept > 0 || aborts > 1) {
        t.strictSame({ kept, aborts }, { kept: 0, aborts: 1 }, `round ${round}`)
        return
      }
    }
    t.pass('2000 rounds')
  },
)

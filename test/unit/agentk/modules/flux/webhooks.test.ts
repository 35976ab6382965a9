import t, { type Test } from 'tap'
import { Webhooks, type WebhooksOptions } from '../../../../../src/agentk/modules/flux/webhooks.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'

function start(t: Test, options: Partial<WebhooksOptions> = {}) {
  const { log, lines } = capturedLog()
  const clock = new ManualClock()
  const calls: { path: string; ok(): Promise<void>; fail(): Promise<void> }[] = []
  const abandoned: bigint[] = []
  const outcomes: string[] = []
  let holds = true
  const webhooks = new Webhooks(
    {
      call: (path, signal) => {
        const { promise, resolve, reject } = Promise.withResolvers<void>()
        signal.addEventListener('abort', () => reject(signal.reason))
        const ok = () => {
          resolve()
          return settle()
        }
        const fail = () => {
          reject(new Error('refused'))
          return settle()
        }
        calls.push({ path, ok, fail })
        return promise
      },
      holds: () => holds,
      onAbandoned: (ids) => void abandoned.push(...ids),
      onOutcome: (outcome) => void outcomes.push(outcome),
      log,
      clock,
      random: () => 0,
    },
    options,
  )
  t.teardown(() => webhooks.stop())
  const push = (key: string, id: bigint, path: () => string | undefined = () => `/hook/${key}`) => {
    webhooks.push({ key, project: `apps/${key}`, path }, id)
    return settle()
  }
  const hold = (next: boolean) => {
    holds = next
  }
  const warnings = () => lines.filter(({ level }) => level === 'warn').map(({ msg }) => msg)
  const paths = () => calls.map(({ path }) => path)
  const nth = (i: number) => calls[i] as (typeof calls)[number]
  return { webhooks, clock, calls, nth, paths, push, hold, abandoned, outcomes, warnings, lines }
}

t.test('pushes that come while a webhook is called are one more call', async (t) => {
  const { push, nth, paths, outcomes } = start(t)
  for (const id of [1n, 2n, 3n, 4n]) await push('a', id)
  await push('b', 5n)
  t.strictSame(paths(), ['/hook/a', '/hook/b'])
  await nth(0).ok()
  t.strictSame(paths(), ['/hook/a', '/hook/b', '/hook/a'], 'three are one')
  await nth(2).ok()
  await nth(1).ok()
  await push('a', 6n)
  t.equal(paths().length, 4)
  t.strictSame(outcomes, ['called', 'called', 'called'])
})

t.test('a push that comes just as a call ends is not lost', async (t) => {
  for (const end of ['ok', 'fail', 'gone'] as const) {
    for (let ticks = 0; ticks < 12; ticks++) {
      const { webhooks, clock, nth, paths } = start(t, { maxAttempts: 1 })
      const key = { key: 'a', project: 'apps/a' }
      webhooks.push({ ...key, path: () => (end === 'gone' ? undefined : '/hook/1') }, 1n)
      if (end !== 'gone') {
        await settle()
        void nth(0)[end]()
      }
      for (let i = 0; i < ticks; i++) await Promise.resolve()
      webhooks.push({ ...key, path: () => '/hook/2' }, 2n)
      await clock.pass(1000) // a push that joins a failed call waits for the next try
      t.equal(paths().at(-1), '/hook/2', `${end}, ${ticks} ticks later`)
    }
  }
})

t.test('a webhook that fails is called again, later and later, and given up with a warning', async (t) => {
  const { push, clock, calls, nth, outcomes, warnings, abandoned, lines } = start(t, { maxAttempts: 5 })
  await push('a', 1n)
  for (const ms of [1000, 2000, 4000, 8000]) {
    await nth(calls.length - 1).fail()
    t.strictSame(clock.waits, [ms])
    await clock.pass(ms)
  }
  t.equal(calls.length, 5)
  t.strictSame(warnings(), [])
  await nth(4).fail()
  t.match(warnings(), [/^Flux could not be notified of a push/])
  t.strictSame(outcomes, ['failed'])
  t.strictSame(clock.waits, [])
  t.strictSame(abandoned, [])
  t.notMatch(JSON.stringify(lines), /\/hook\//, 'the path is a secret')
  await push('a', 2n)
  t.equal(calls.length, 6, 'the next push has tries of its own')
})

t.test('a push that comes while a failed call waits is one call with it, with all its tries', async (t) => {
  const { push, clock, calls, nth, warnings } = start(t, { maxAttempts: 2 })
  await push('a', 1n)
  await nth(0).fail()
  await push('a', 2n)
  t.equal(calls.length, 1)
  await clock.pass(1000)
  await nth(1).fail()
  t.strictSame(warnings(), [])
  await clock.pass(1000)
  await push('a', 3n) // comes during the call, and is not lost if that call fails for the last time
  await nth(2).fail()
  t.strictSame(warnings(), [])
  await clock.pass(1000)
  await nth(3).ok()
  t.equal(calls.length, 4)
})

t.test('a Receiver that cannot be called yet is waited for; what is gone is let go', async (t) => {
  const { push, clock, paths, nth, warnings } = start(t)
  let path: string | undefined = ''
  await push('a', 1n, () => path)
  t.strictSame(paths(), [])
  path = '/hook/new'
  await clock.pass(1000)
  t.strictSame(paths(), ['/hook/new'])
  await nth(0).ok()
  await push('a', 2n, () => undefined)
  t.strictSame(clock.waits, [])
  t.strictSame(warnings(), [])
})

t.test('not more at once than allowed, in their order', async (t) => {
  const { push, nth, paths } = start(t, { maxParallel: 2 })
  for (const key of ['a', 'b', 'c', 'd']) await push(key, 1n)
  t.strictSame(paths(), ['/hook/a', '/hook/b'])
  await nth(1).ok()
  t.strictSame(paths(), ['/hook/a', '/hook/b', '/hook/c'])
  await nth(0).fail()
  t.strictSame(paths(), ['/hook/a', '/hook/b', '/hook/c', '/hook/d'], 'one that waits takes no turn')
  await nth(2).ok()
  await nth(3).ok()
  await push('e', 1n)
  t.equal(paths().at(-1), '/hook/e')
})

t.test('while a pod does not hold nothing is called; then it is, or is left when the term is over', async (t) => {
  for (const end of ['holds', 'stop'] as const) {
    const { webhooks, push, nth, clock, calls, hold, abandoned, warnings } = start(t, { maxAttempts: 2 })
    await push('a', 1n)
    hold(false)
    await push('a', 2n) // during the call
    await nth(0).ok()
    await push('b', 3n)
    await clock.pass(60_000) // longer than all tries take
    await push('b', 4n)
    t.equal(calls.length, 1)
    t.strictSame([abandoned, warnings()], [[], []])
    if (end === 'stop') {
      await webhooks.stop()
      t.strictSame(abandoned.toSorted(), [2n, 3n, 4n])
      t.match(warnings(), [/this pod does not lead any more/, /this pod does not lead any more/])
      t.strictSame(clock.waits, [])
    } else {
      hold(true)
      await clock.pass(1000)
      t.strictSame(calls.map(({ path }) => path).toSorted(), ['/hook/a', '/hook/a', '/hook/b'])
      await nth(1).fail()
      t.strictSame(warnings(), [], 'with all its tries')
    }
  }
})

t.test('what waits and what runs when it is stopped is left', async (t) => {
  const { webhooks, push, calls, clock, abandoned } = start(t, { maxParallel: 1 })
  await push('a', 1n)
  await push('a', 2n)
  await push('b', 3n)
  await webhooks.stop()
  await push('c', 4n)
  t.strictSame(abandoned.toSorted(), [1n, 2n, 3n, 4n])
  t.equal(calls.length, 1)
  t.strictSame(clock.waits, [])
})

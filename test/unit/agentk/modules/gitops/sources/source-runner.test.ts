import t, { type Test } from 'tap'
import { ReconcileQueue } from '../../../../../../src/agentk/modules/gitops/sources/reconcile-queue.ts'
import { type SourceMode, SourceRunner } from '../../../../../../src/agentk/modules/gitops/sources/source-runner.ts'
import { eventually } from '../../../../../support/eventually.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

type Round = SourceMode['round']

/** Starts a runner with the test's rounds. An approval counts for one use. */
function startRunner(t: Test, round: Round, given: Partial<SourceMode> = {}) {
  const clock = new ManualClock()
  const listeners = new Map<string, () => void>()
  const used: string[] = []
  let approved = 'plan-1'
  const people = {
    directives: async () => ({ approved, isSuspended: false, resync: '', resynced: '', isForgotten: false }),
    useApproval: async (id: string, plan: string) => {
      used.push(`${id} ${plan}`)
      approved = ''
    },
    resynced: (id: string, resync: string) => void used.push(`${id} resynced ${resync}`),
    onDirectives: (id: string, listener: () => void) => {
      listeners.set(id, listener)
      return () => listeners.delete(id)
    },
  }
  const queue = new ReconcileQueue<SourceRunner>({ clock, random: () => 0 })
  const runner = new SourceRunner(
    { queue, people },
    { kind: 'follow', id: '42-7', beside: async () => undefined, round, ...given },
  )
  const ended = new AbortController()
  const run = runner.run(ended.signal)
  t.teardown(async () => {
    ended.abort(new Error('the test is over'))
    await run.catch(() => undefined)
  })
  return { runner, run, clock, listeners, used, ended }
}

t.test('a round is superseded once another one is wanted, and that one follows', async (t) => {
  const seen: AbortSignal[] = []
  const { runner } = startRunner(t, async ({ superseded }) => {
    seen.push(superseded)
    if (seen.length === 1) await new Promise((resolve) => superseded.addEventListener('abort', resolve))
    return 'idle'
  })
  runner.add()
  await eventually(() => seen.length === 1)
  runner.again('a newer commit has come')
  await eventually(() => seen.length === 2)
  t.match(seen[0]?.reason, { spec: { code: 'CANCELLED', detail: 'a newer commit has come' } })
  t.equal(seen[1]?.aborted, false)
  runner.add()
  await eventually(() => seen.length === 3)
  t.match(seen[1]?.reason, { spec: { code: 'CANCELLED', detail: 'another round has begun' } })
})

t.test('people are listened to under the id by which the source goes', async (t) => {
  let rounds = 0
  const { runner, run, listeners, ended } = startRunner(t, async () => {
    rounds++
    return 'idle'
  })
  runner.listen('42-platform/shop')
  runner.listen('42-7')
  t.strictSame([...listeners.keys()], ['42-7'])
  listeners.get('42-7')?.()
  await eventually(() => rounds === 1)
  ended.abort(new Error('the term is over'))
  await run
  t.strictSame([...listeners.keys()], [])
})

t.test('what people ask begins pauses anew where a source is followed, and not where it is removed', async (t) => {
  for (const [kind, pauses] of [
    ['follow', [5000, 5000]],
    ['remove', [5000, 20_000]],
  ] as const) {
    let rounds = 0
    const { runner, clock, listeners } = startRunner(
      t,
      async () => {
        rounds++
        return 'backoff'
      },
      { kind },
    )
    runner.listen('42-7')
    runner.add()
    for (const [i, ms] of pauses.entries()) {
      await eventually(() => rounds === 2 * i + 1 && clock.pending > i)
      clock.advance(ms - 1)
      await new Promise(setImmediate)
      t.equal(rounds, 2 * i + 1, `${kind}: ${ms - 1} ms`)
      clock.advance(1)
      await eventually(() => rounds === 2 * i + 2)
      if (i === 0) listeners.get('42-7')?.()
    }
  }
})

t.test('a plan that is approved is taken back as it was asked for', async (t) => {
  const seen: unknown[] = []
  const { runner, used } = startRunner(t, async (of, signal) => {
    const { useApproval, onResynced, superseded, ...directives } = await of.asked('42-7', signal)
    seen.push(directives, superseded === of.superseded)
    await useApproval(signal)
    return 'idle'
  })
  runner.add()
  await eventually(() => used.length === 1)
  t.strictSame(seen, [{ approved: 'plan-1', isSuspended: false, resync: '', resynced: '', isForgotten: false }, true])
  t.strictSame(used, ['42-7 plan-1'])
})

t.test('stop ends the rounds and what goes on beside them', async (t) => {
  const aborted: string[] = []
  const until = async (signal: AbortSignal, name: string) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    aborted.push(`${name}: ${signal.reason.message}`)
  }
  const beside: SourceMode['beside'] = (_, signal) => until(signal, 'beside')
  const { runner, run } = startRunner(
    t,
    async (_, signal) => {
      await until(signal, 'round')
      return 'idle'
    },
    { beside },
  )
  runner.add()
  await new Promise(setImmediate)
  t.equal(runner.isStopped, false)
  runner.stop(new Error('the configuration has changed'))
  await run
  t.equal(runner.isStopped, true)
  t.strictSame(aborted.sort(), ['beside: the configuration has changed', 'round: the configuration has changed'])
})

t.test('a round that rejects ends the source, once what goes on beside has ended', async (t) => {
  let hasEnded = false
  const { runner, run } = startRunner(
    t,
    async () => {
      throw new Error('the configuration has 42-7 twice')
    },
    {
      beside: async (_, signal) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        hasEnded = true
      },
    },
  )
  runner.add()
  await t.rejects(run, { message: 'the configuration has 42-7 twice' })
  t.ok(hasEnded)
  t.equal(runner.isStopped, false, 'nobody has stopped it')
})

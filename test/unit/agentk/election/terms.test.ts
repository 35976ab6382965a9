import t, { type Test } from 'tap'
import { type Term, Terms } from '../../../../src/agentk/election/terms.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { settle } from '../../../support/manual-clock.ts'

interface Run extends Term {
  end(): void
  fail(error: Error): void
}

async function start(t: Test, { holds = false } = {}) {
  const listeners: (() => void)[] = []
  const state = { holds, leader: holds ? 'own' : '' }
  const election = {
    identity: 'own',
    get leader() {
      return state.leader
    },
    holds: () => state.holds,
    onChange: (listener: () => void) => void listeners.push(listener),
  }
  const change = async (next: Partial<typeof state>) => {
    Object.assign(state, next)
    for (const listener of listeners) listener()
    await settle()
  }
  const runs: Run[] = []
  const { log, lines } = capturedLog()
  const terms = new Terms({ election, log }, ({ signal, holds }) => {
    const ended = Promise.withResolvers<void>()
    runs.push({ signal, holds, end: ended.resolve, fail: ended.reject })
    return ended.promise
  })
  await terms.start()
  t.teardown(() => {
    for (const { end } of runs) end()
    return terms.stop()
  })
  await settle()
  return { terms, runs, lines, change }
}

const aborted = (runs: readonly Run[]) => runs.map(({ signal }) => signal.aborted)

t.test('a term begins when this pod leads and ends when another does', async (t) => {
  const { runs, change } = await start(t)
  t.strictSame(runs, [])
  await change({ leader: 'other' })
  t.strictSame(runs, [])
  await change({ leader: 'own', holds: true })
  t.strictSame(aborted(runs), [false])
  t.ok(runs[0]?.holds())
  await change({ leader: 'other', holds: false })
  t.strictSame(aborted(runs), [true])
  t.match(runs[0]?.signal.reason, { code: 'CANCELLED' })
})

t.test('one that may not act goes on while nobody else leads', async (t) => {
  const { runs, change } = await start(t, { holds: true })
  await change({ holds: false })
  t.strictSame(aborted(runs), [false])
  t.notOk(runs[0]?.holds())
  await change({ holds: true })
  t.strictSame(aborted(runs), [false], 'the same')
  await change({ holds: false, leader: '' })
  t.strictSame(aborted(runs), [true], 'the lease was given back')
})

t.test('the next term begins when the last has ended, also by a failure', async (t) => {
  const { runs, lines, change } = await start(t, { holds: true })
  await change({ leader: 'other', holds: false })
  await change({ leader: 'own', holds: true })
  t.equal(runs.length, 1)
  runs[0]?.fail(new Error('broken'))
  await settle()
  t.strictSame(aborted(runs), [true, false])
  t.match(lines, [{ level: 'error', msg: 'Work of the pod that leads has failed' }])
})

t.test('stopping ends the term and waits for it', async (t) => {
  const { terms, runs, change } = await start(t, { holds: true })
  let isStopped = false
  const stopped = terms.stop().then(() => {
    isStopped = true
  })
  await settle()
  t.strictSame([aborted(runs), isStopped], [[true], false])
  runs[0]?.end()
  await stopped
  await change({ holds: true })
  t.equal(runs.length, 1, 'none begins later')
})

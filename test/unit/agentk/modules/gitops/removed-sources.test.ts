import t, { type Test } from 'tap'
import type { RemovalInput } from '../../../../../src/agentk/modules/gitops/removal.ts'
import { RemovedSources } from '../../../../../src/agentk/modules/gitops/removed-sources.ts'
import type { RoundDone } from '../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../src/agentk/modules/gitops/source-options.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { eventually } from '../../../../support/eventually.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const none: RoundDone = {
  is: 'done',
  ends: [],
  entries: new Map(),
  pruned: [],
  plan: '',
  planned: [],
  orphans: [],
  isPruneHeld: false,
}

/** Two sources that have left, `42-7` and `42-8`. */
function startRemoved(t: Test, round: (id: string, input: RemovalInput) => Promise<RoundDone>) {
  const clock = new ManualClock()
  const wishes = new Map<string, () => void>()
  const { log, lines } = capturedLog()
  const stored = [7n, 8n].map((projectId) => sourceOptions({}, { agentId: 42n, projectId, ownProject: 'a/b' }))
  const removed = new RemovedSources({
    stored: async () => stored,
    isGone: () => true,
    onGone: () => undefined,
    round: (input, { id }) => round(id, input),
    wishes: async () => ({ approved: '', isPaused: false }),
    useApproval: async () => undefined,
    onWish: (id, listener) => {
      wishes.set(id, listener)
      return () => wishes.delete(id)
    },
    onStatus: () => undefined,
    log,
    clock,
    random: () => 0.5,
  })
  const ended = new AbortController()
  const run = removed.run(ended.signal)
  const stop = async () => {
    ended.abort(new Error('the test is over'))
    await run
  }
  t.teardown(stop)
  return { removed, clock, wishes, lines, stop }
}

t.test('what may be on its way is asked for again once it has landed, also after a change', async (t) => {
  const seen: unknown[] = []
  const { removed, clock, stop } = startRemoved(t, async (id, { isSettling }) => {
    seen.push([id, isSettling])
    return none
  })
  removed.look()
  await eventually(() => seen.length === 2)
  clock.advance(119_000)
  await removed.halt()
  removed.look()
  await eventually(() => seen.length === 4)
  clock.advance(119_000)
  removed.look()
  await eventually(() => seen.length === 6)
  clock.advance(1000)
  await eventually(() => seen.length === 8)
  const [settling, settled] = [true, false].map((is) => [
    ['42-7', is],
    ['42-8', is],
  ])
  t.strictSame(seen, [settling, settling, settling, settled].flat())
  await removed.halt()
  await stop()
  t.equal(clock.pending, 0)
})

t.test('one that fails holds no other, and is tried again', async (t) => {
  const seen: string[] = []
  const { removed, clock, lines } = startRemoved(t, async (id) => {
    seen.push(id)
    if (id === '42-7') throw new Error('no shard')
    return none
  })
  removed.look()
  await eventually(() => seen.length === 2)
  t.strictSame(seen, ['42-7', '42-8'])
  t.match(lines, [{ source: '42-7', msg: 'What a source has left behind cannot be looked at' }])
  await eventually(() => {
    clock.advance(6000)
    return seen.length > 2
  })
})

t.test('a wish stops the removal that runs', async (t) => {
  const seen: string[] = []
  const { removed, wishes } = startRemoved(t, async (id, { superseded }) => {
    seen.push(id)
    if (seen.length === 1) await new Promise((resolve) => superseded.addEventListener('abort', resolve))
    return none
  })
  removed.look()
  await eventually(() => seen.length === 1)
  wishes.get('42-7')?.()
  await eventually(() => seen.length === 4)
  t.strictSame(seen, ['42-7', '42-8', '42-7', '42-8'])
})

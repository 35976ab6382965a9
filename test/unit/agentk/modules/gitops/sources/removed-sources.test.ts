import { create } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import type { RemovalInput } from '../../../../../../src/agentk/modules/gitops/reconcile.ts'
import type { RoundDone } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { ReconcileQueue } from '../../../../../../src/agentk/modules/gitops/sources/reconcile-queue.ts'
import { RemovedSources } from '../../../../../../src/agentk/modules/gitops/sources/removed-sources.ts'
import { SourceStateSchema } from '../../../../../../src/proto/gen/gitops_states_pb.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { eventually } from '../../../../../support/eventually.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const none: RoundDone = {
  kind: 'done',
  ends: [],
  entries: new Map(),
  pruned: [],
  planDigest: '',
  awaitingApproval: [],
  reasons: new Map(),
  kinds: new ClusterKinds([]),
  orphans: [],
  isWaitingForOthers: false,
  notes: [],
}

/** Starts with two removed sources, `42-7` and `42-8`. */
function startRemoved(t: Test, round: (id: string, input: RemovalInput, signal: AbortSignal) => Promise<RoundDone>) {
  const clock = new ManualClock()
  const directives = new Map<string, () => void>()
  const { log, lines } = capturedLog()
  const reported: string[] = []
  const back = new Set<string>()
  let lists = 0
  const stored = [7n, 8n].map((projectId) => sourceOptions({}, { agentId: 42n, projectId, ownProject: 'a/b' }))
  const removed = new RemovedSources({
    rounds: {
      stored: async () => {
        lists += 1
        return stored
      },
      remove: (input, { id }, signal) => round(id, input, signal),
      forget: async () => undefined,
    },
    hasLeft: (id) => !back.has(id),
    queue: new ReconcileQueue({ clock, random: () => 0.5 }),
    people: {
      directives: async () => ({ approved: '', isSuspended: false, resync: '', resynced: '', isForgotten: false }),
      useApproval: async () => undefined,
      resynced: () => undefined,
      onDirectives: (id, listener) => {
        directives.set(id, listener)
        return () => directives.delete(id)
      },
    },
    status: {
      report: ({ id }, { kind }) => {
        reported.push(`${id} ${kind}`)
        return create(SourceStateSchema)
      },
      remove: () => undefined,
    },
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
  return { removed, clock, directives, lines, reported, back, stop, lists: () => lists }
}

t.test('what may be on its way is asked for again once it has landed, also after a change', async (t) => {
  const seen: unknown[] = []
  const { removed, clock, stop } = startRemoved(t, async (id, { mayHaveCallsInFlight }) => {
    seen.push([id, mayHaveCallsInFlight])
    return none
  })
  removed.check()
  await eventually(() => seen.length === 2)
  clock.advance(119_000)
  removed.settle()
  removed.check()
  await eventually(() => seen.length === 4)
  clock.advance(119_000)
  removed.check()
  await eventually(() => seen.length === 6)
  clock.advance(1000)
  await eventually(() => seen.length === 8)
  const [settling, settled] = [true, false].map((is) => [
    ['42-7', is],
    ['42-8', is],
  ])
  t.strictSame(seen, [settling, settling, settling, settled].flat())
  await stop()
  t.equal(clock.pending, 0)
})

t.test('a source that is known by its id is decided upon without another list', async (t) => {
  const seen: string[] = []
  const { removed, back, lists, stop } = startRemoved(t, async (id) => {
    seen.push(id)
    return none
  })
  back.add('42-7') // a source of the configuration may have this id
  removed.check()
  await eventually(() => seen.length === 1)
  back.delete('42-7')
  removed.decide()
  await eventually(() => seen.length > 1)
  t.ok(seen.includes('42-7'))
  t.equal(lists(), 1)
  await stop()
  removed.decide()
  t.equal(lists(), 1)
})

t.test('one that fails holds no other, and is tried again', async (t) => {
  const seen: string[] = []
  const { removed, clock, lines, reported } = startRemoved(t, async (id) => {
    seen.push(id)
    if (id === '42-7') throw new Error('no shard')
    return none
  })
  removed.check()
  await eventually(() => seen.length === 2)
  t.strictSame(seen, ['42-7', '42-8'])
  t.match(lines, [{ source: '42-7', msg: 'What a source has left behind cannot be checked' }])
  t.ok(reported.includes('42-7 removalFailed'))
  await eventually(() => {
    clock.advance(6000)
    return seen.length > 2
  })
})

t.test('a wish stops the removal that runs, and one that waits holds no other', async (t) => {
  const seen: string[] = []
  const { removed, directives } = startRemoved(t, async (id, { superseded }) => {
    seen.push(id)
    if (id === '42-7') await new Promise((resolve) => superseded.addEventListener('abort', resolve))
    return { ...none, entries: new Map([['a', {} as never]]) }
  })
  removed.check()
  await eventually(() => seen.length === 2)
  directives.get('42-8')?.()
  await eventually(() => seen.length === 3)
  directives.get('42-7')?.()
  await eventually(() => seen.length === 4)
  t.strictSame(seen, ['42-7', '42-8', '42-8', '42-7'])
  directives.get('42-7')?.()
})

t.test('what comes back is halted, and nothing else', async (t) => {
  const seen: string[] = []
  const aborted: string[] = []
  const { removed, back } = startRemoved(t, async (id, _, signal) => {
    seen.push(id)
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    aborted.push(id)
    signal.throwIfAborted()
    return none
  })
  removed.check()
  await eventually(() => seen.length === 2)
  await removed.halt()
  t.strictSame(aborted, [])
  back.add('42-7')
  await removed.halt()
  t.strictSame(aborted, ['42-7'])
  back.clear()
  removed.check()
  await eventually(() => seen.length === 3)
  t.strictSame(seen, ['42-7', '42-8', '42-7'])
})

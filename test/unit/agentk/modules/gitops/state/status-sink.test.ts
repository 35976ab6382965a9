import t from 'tap'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import type {
  ApplyEnd,
  InventoryEntry,
  Outcome,
  RoundDone,
  RoundEnd,
} from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { gitSyncStatus } from '../../../../../../src/agentk/modules/gitops/state/git-sync-status.ts'
import { StatusSink } from '../../../../../../src/agentk/modules/gitops/state/status-sink.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { Phase, type SourceState } from '../../../../../../src/proto/gen/gitops_states_pb.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const keyOf = (name: string) => ({ group: '', kind: 'ConfigMap', namespace: 'shop', name })
const endOf = (name: string, end: ApplyEnd): RoundEnd => {
  const manifest = { key: keyOf(name), version: 'v1', object: {}, file: 'a.yaml', line: 1, digest: name }
  return { manifest, end }
}
const entryOf = (name: string): InventoryEntry => {
  const rest = { uid: 'u', wave: 0, digest: '', fields: '', state: 'waits' as const, reason: '' }
  return { key: keyOf(name), version: 'v1', ...rest }
}
const unchanged = endOf('same', { kind: 'unchanged', live: undefined })
const asking = endOf('asks', { kind: 'failed', problem: { kind: 'immutable', text: 'approve', replaces: 'u' } })
const failing = endOf('fails', { kind: 'failed', problem: { kind: 'invalid', text: 'bad' } })
const noEntries = { entries: new Map(), kinds: new ClusterKinds([]) }
const behind = endOf('behind', { kind: 'waits', text: 'asks has failed' })

const done = (given: Partial<RoundDone>): RoundDone => {
  const none = {
    ends: [],
    planDigest: '',
    awaitingApproval: [],
    reasons: new Map(),
    kinds: new ClusterKinds([]),
    entries: new Map(),
    pruned: [],
    orphans: [],
    notes: [],
  }
  return { kind: 'done', ...none, isWaitingForOthers: false, ...given }
}

const guide = { pathOf: (id: string) => `/gitsyncs/${id}` }

function sinkOf(block: Parameters<typeof sourceOptions>[0] = {}) {
  const options = sourceOptions(block, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' })
  const shown: SourceState[] = []
  const clock = new ManualClock()
  const sink = new StatusSink(clock, guide, [{ changed: (state) => shown.push(state), removed: () => undefined }])
  const ended = (commit: string, outcome: Outcome) => sink.report(options, { kind: 'outcome', commit, outcome })
  return { sink, options, shown, ended, clock }
}

t.test('what waits for approval, and what fails', async (t) => {
  const of = (ends: readonly RoundEnd[], plan: string) =>
    sinkOf().ended(
      'c1',
      done({ ends, planDigest: plan, orphans: [keyOf('o')], awaitingApproval: plan ? [entryOf('asks')] : [] }),
    )
  t.match(of([unchanged], ''), { phase: Phase.SYNCED, commit: 'c1', orphan: [{ name: 'o' }], counts: { orphans: 1 } })
  t.match(of([unchanged], 'p'), { phase: Phase.APPROVAL, commit: 'c1', plan: 'p' })
  t.match(of([unchanged, asking, behind], 'p'), { phase: Phase.APPROVAL, commit: '', planned: [{ name: 'asks' }] })
  t.match(of([asking, failing], 'p'), { phase: Phase.FAILING, commit: '', plan: 'p', counts: { failed: 2 } })
  t.match(of([behind], ''), { phase: Phase.FAILING })
})

t.test('what could not be deleted is named, in the cluster too', async (t) => {
  const { ended } = sinkOf()
  const failed = ['a', 'b', 'c'].map((name) => ({ ...entryOf(name), state: 'failed' as const, reason: 'a finalizer' }))
  const entries = new Map([...failed, entryOf('d')].map((entry) => [keyText(entry.key), entry] as const))
  const state = ended('c1', done({ ends: [unchanged], entries, notes: ['a note'] }))
  const problem = 'a note; ConfigMap shop/a, and 2 others could not be deleted: a finalizer'
  t.match(state, { phase: Phase.FAILING, problem })
  t.match(gitSyncStatus(state, []), {
    phase: 'Failing',
    problem,
    kept: [...['a', 'b', 'c'].map((name) => `ConfigMap shop/${name}: a finalizer`), 'ConfigMap shop/d'],
    conditions: [{ type: 'Ready', status: 'False', message: problem }, {}, {}],
  })
})

t.test('how a commit was rendered is said of what is in the cluster', async (t) => {
  const { ended } = sinkOf()
  const state = ended('c1', done({ ends: [unchanged], notes: ['hooks are left out', 'a'.repeat(2000)] }))
  t.match(state, { phase: Phase.SYNCED, problem: /^hooks are left out; a+$/ })
  t.equal(state.problem.length, 1000)
  t.equal(ended('c2', done({ ends: [unchanged] })).problem, '')
})

t.test('what was tried out is in the cluster no more than before, unless nothing differs', async (t) => {
  const { ended } = sinkOf({ dry_run_strategy: 'server' })
  const would = endOf('new', { kind: 'applied', live: {} as never })
  t.match(ended('c2', { kind: 'dryRun', ...noEntries, ends: [unchanged, would, behind], leaving: [entryOf('old')] }), {
    phase: Phase.PAUSED,
    commit: '',
    wanted: 'c2',
    problem: 'dry_run_strategy: server: nothing is written',
    counts: { objects: 3, unchanged: 1, applied: 0, waiting: 2, failed: 0 },
    trouble: [{ text: 'it would be applied' }, { text: 'asks has failed' }],
    plan: '',
    planned: [{ name: 'old' }],
  })
  const uncompared = endOf('of-others', { kind: 'applied', live: {} as never, uncompared: 'another server answers' })
  t.match(ended('c2', { kind: 'dryRun', ...noEntries, ends: [uncompared], leaving: [] }), {
    phase: Phase.PAUSED,
    counts: { waiting: 1, failed: 0 },
    trouble: [{ text: 'it would be applied as Git has it, and was not compared: another server answers' }],
  })
  const bad = ended('c2', { kind: 'dryRun', ...noEntries, ends: [failing], leaving: [] })
  t.match(bad, { phase: Phase.FAILING, trouble: [{ text: 'bad' }], planned: [] })
  t.match(ended('c3', { kind: 'dryRun', ...noEntries, ends: [unchanged], leaving: [] }), {
    phase: Phase.PAUSED,
    commit: 'c3',
  })
})

t.test('files that cannot be read are told beside the commit that holds, and no longer than that is so', async (t) => {
  const { sink, options, shown, ended, clock } = sinkOf()
  sink.begin(options, 'd1')
  t.match(shown.at(-1), { phase: Phase.WAITING, reason: '', digest: 'd1' })
  clock.advance(1000)
  ended('c1', done({ ends: [unchanged], notes: ['a note'] }))
  const now = BigInt(clock.now())
  t.match(shown.at(-1), { appliedAtMs: now, comparedAtMs: now })
  sink.filesFailed(options, new KasError({ code: 'PROJECT_NOT_READABLE', project: 'platform/shop' }))
  t.match(shown.at(-1), {
    phase: Phase.FAILING,
    reason: 'project_not_readable',
    problem: /not found/,
    commit: 'c1',
  })
  ended('c1', done({ ends: [unchanged], notes: ['a note'] }))
  t.match(shown.at(-1), { reason: 'project_not_readable' }, 'also where a round is made meanwhile')
  sink.filesRecovered(options)
  t.match(shown.at(-1), { phase: Phase.SYNCED, reason: '', problem: 'a note' })
})

t.test(
  'a commit that has come is in the cluster no more than before, and what the one before planned is void',
  async (t) => {
    const { sink, options, ended } = sinkOf()
    const received = (commit: string) => sink.report(options, { kind: 'received', commit })
    const reasons = new Map([['/ConfigMap/shop/asks', { code: 'toPrune', text: 'it has left the commit' }]])
    const planned = { planDigest: 'p', awaitingApproval: [entryOf('asks')], reasons }
    ended('c1', done({ ends: [unchanged], ...planned }))
    t.match(received('c1'), { phase: Phase.APPROVAL, wanted: 'c1', plan: 'p' }, 'the same one again')
    const nothing = { plan: '', planned: [], leaving: [] }
    t.match(received('c2'), { phase: Phase.READING, commit: 'c1', wanted: 'c2', ...nothing })

    ended('c1', done({ ends: [unchanged], ...planned }))
    const problems = [{ file: 'a.yaml', line: 3, text: 'no YAML' }]
    const refused = ended('c2', { kind: 'refused', problems, isWaitingForOthers: false })
    t.match(refused, { phase: Phase.REFUSED, commit: 'c1', wanted: 'c2', problem: 'a.yaml:3: no YAML', ...nothing })
  },
)

t.test('what waits for other sources is said, until they are known', async (t) => {
  const { ended } = sinkOf()
  t.match(ended('c1', done({ ends: [unchanged], isWaitingForOthers: true })), { isWaitingForOthers: true })
  t.match(ended('c1', done({ ends: [unchanged] })), { phase: Phase.SYNCED, isWaitingForOthers: false })
})

import t from 'tap'
import type { ApplyEnd, RoundEnd } from '../../../../../../src/agentk/modules/gitops/apply/apply-run.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/inventory/entry.ts'
import type { RoundResult } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { SourceStatus } from '../../../../../../src/agentk/modules/gitops/state/source-status.ts'
import { Phase } from '../../../../../../src/proto/gen/gitops_states_pb.ts'

const keyOf = (name: string) => ({ group: '', kind: 'ConfigMap', namespace: 'shop', name })
const ended = (name: string, end: ApplyEnd): RoundEnd => {
  const manifest = { key: keyOf(name), version: 'v1', object: {}, file: 'a.yaml', line: 1, digest: name }
  return { manifest, end }
}
const entryOf = (name: string): InventoryEntry => {
  const rest = { uid: 'u', wave: 0, digest: '', fields: '', state: 'waits' as const, reason: '' }
  return { key: keyOf(name), version: 'v1', ...rest }
}
const unchanged = ended('same', { is: 'unchanged', live: undefined })
const asking = ended('asks', { is: 'failed', problem: { kind: 'immutable', text: 'approve', replaces: 'u' } })
const failing = ended('fails', { is: 'failed', problem: { kind: 'invalid', text: 'bad' } })
const behind = ended('behind', { is: 'waits', text: 'asks has failed' })

function statusOf(block: Parameters<typeof sourceOptions>[0] = {}): SourceStatus {
  return new SourceStatus(sourceOptions(block, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }), 0)
}

t.test('what waits for approval, and what fails', async (t) => {
  const done = (ends: readonly RoundEnd[], plan: string) => {
    const rest = { entries: new Map(), pruned: [], planned: plan ? [entryOf('asks')] : [], isPruneHeld: false }
    const result: Extract<RoundResult, { is: 'done' }> = { is: 'done', ends, plan, orphans: [keyOf('o')], ...rest }
    const status = statusOf()
    status.done('c1', result, 1)
    return status.state
  }
  t.match(done([unchanged], ''), { phase: Phase.SYNCED, commit: 'c1', orphan: [{ name: 'o' }], counts: { orphans: 1 } })
  t.match(done([unchanged], 'p'), { phase: Phase.APPROVAL, commit: 'c1', plan: 'p' })
  t.match(done([unchanged, asking, behind], 'p'), { phase: Phase.APPROVAL, commit: '', planned: [{ name: 'asks' }] })
  t.match(done([asking, failing], 'p'), { phase: Phase.FAILING, commit: '', plan: 'p', counts: { failed: 2 } })
  t.match(done([behind], ''), { phase: Phase.FAILING })
})

t.test('how a commit was rendered is said of what is in the cluster', async (t) => {
  const rest = { plan: '', planned: [], entries: new Map(), pruned: [], orphans: [], isPruneHeld: false }
  const status = statusOf()
  status.done('c1', { is: 'done', ends: [unchanged], ...rest, notes: ['hooks are left out', 'a'.repeat(2000)] }, 1)
  t.match(status.state, { phase: Phase.SYNCED, problem: /^hooks are left out; a+$/ })
  t.equal(status.state.problem.length, 1000)
  status.done('c2', { is: 'done', ends: [unchanged], ...rest }, 2)
  t.equal(status.state.problem, '')
})

t.test('what was tried out is in the cluster no more than before', async (t) => {
  const status = statusOf({ dry_run_strategy: 'server' })
  const would = ended('new', { is: 'applied', live: {} as never })
  status.rehearsed('c2', { is: 'rehearsed', ends: [unchanged, would, behind], leaving: [entryOf('old')] }, 1)
  t.match(status.state, {
    phase: Phase.PAUSED,
    commit: '',
    wanted: 'c2',
    problem: 'dry_run_strategy: server: nothing is written',
    counts: { objects: 3, unchanged: 1, applied: 0, waiting: 2, failed: 0 },
    trouble: [{ text: 'it would be applied' }, { text: 'asks has failed' }],
    plan: '',
    planned: [{ name: 'old' }],
  })
  status.rehearsed('c2', { is: 'rehearsed', ends: [failing], leaving: [] }, 2)
  t.match(status.state, { phase: Phase.FAILING, trouble: [{ text: 'bad' }], planned: [] })
})

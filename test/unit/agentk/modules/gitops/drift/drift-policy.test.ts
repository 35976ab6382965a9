import t from 'tap'
import { decide, deletedAfterMs } from '../../../../../../src/agentk/modules/gitops/drift/drift-policy.ts'
import type { Finding } from '../../../../../../src/agentk/modules/gitops/finding.ts'
import { correctionsMs, recordCorrection } from '../../../../../../src/agentk/modules/gitops/inventory/corrections.ts'
import { maxHoldMs } from '../../../../../../src/proto/gitops/limits.ts'

const now = Date.parse('2026-06-01T00:00:00Z')
const policy = { mode: 'correct' as const, afterMs: 300_000, removesAdded: false }
const by = (name: string, ago = 0) => ({ manager: name, operation: 'Update', time: now - ago })

const finding = (given: Partial<Finding> = {}): Finding => ({
  key: { group: 'apps', kind: 'Deployment', namespace: 'shop', name: 'web' },
  version: 'v1',
  file: 'web.yaml',
  line: 1,
  kind: 'drifted',
  isDeleted: false,
  differences: [],
  more: 0,
  by: by('kubectl-edit'),
  since: now,
  reason: '',
  holdUntil: undefined,
  resourceVersion: '7',
  ...given,
})
const facts = { policy, recorded: undefined, isSettling: false, isPaused: false, now }

t.test('a change is set back after the time of the policy, a deletion after 10 s', async (t) => {
  t.strictSame(decide(finding(), facts), { kind: 'later', at: now + 300_000 })
  t.strictSame(decide(finding({ since: now - 299_999 }), facts), { kind: 'later', at: now + 1 })
  t.strictSame(decide(finding({ since: now - 300_000 }), facts), { kind: 'write' })
  const gone = finding({ isDeleted: true, by: undefined })
  t.strictSame(decide(gone, facts), { kind: 'later', at: now + deletedAfterMs })
  t.strictSame(decide({ ...gone, since: now - deletedAfterMs }, facts), { kind: 'write' })
})

t.test('report and none write nothing, however old the change is', async (t) => {
  for (const mode of ['report', 'none'] as const) {
    const old = finding({ since: now - 1e9 })
    t.strictSame(decide(old, { ...facts, policy: { ...policy, mode } }), { kind: 'left', because: { kind: 'mode' } })
  }
})

t.test('fields that people have added are removed only where the configuration says so', async (t) => {
  const added = finding({ since: now - 1e9, differences: [{ path: '.spec.nodeSelector', kind: 'added' }] })
  t.strictSame(decide(added, facts), { kind: 'left', because: { kind: 'added' } })
  t.strictSame(decide(added, { ...facts, policy: { ...policy, removesAdded: true } }), { kind: 'write' })
})

t.test('a pause comes before all else', async (t) => {
  const late = finding({ isAppliedSince: true, since: 0 })
  t.strictSame(decide(late, { ...facts, isPaused: true, isSettling: true }), {
    kind: 'left',
    because: { kind: 'paused' },
  })
})

t.test('a hold lasts until its time, and at most seven days', async (t) => {
  const old = { since: now - 1e9 }
  const until = now + 1
  t.strictSame(decide(finding({ ...old, holdUntil: until }), facts), { kind: 'left', because: { kind: 'hold', until } })
  t.strictSame(decide(finding({ ...old, holdUntil: now }), facts), { kind: 'write' }, 'it has ended')
  const longest = now + maxHoldMs
  t.match(decide(finding({ ...old, holdUntil: longest }), facts), { kind: 'left' })
  t.strictSame(
    decide(finding({ ...old, holdUntil: longest + 1 }), facts),
    { kind: 'write' },
    'a hold of 100 years is none',
  )
})

t.test('three corrections of one manager in an hour are a fight', async (t) => {
  const old = finding({ by: by('controller', 1e6), since: now - 1e6 })
  let recorded = recordCorrection(undefined, old, now - 30)
  recorded = recordCorrection(recorded, old, now - 20)
  t.strictSame(decide(old, { ...facts, recorded }), { kind: 'write' }, 'two are none yet')
  recorded = recordCorrection(recorded, old, now - 10)
  t.strictSame(decide(old, { ...facts, recorded }), { kind: 'left', because: { kind: 'fight', by: 'controller' } })
  const other = finding({ by: by('kubectl-edit', 1e6), since: now - 1e6 })
  t.strictSame(decide(other, { ...facts, recorded }), { kind: 'write' }, 'another manager has not fought')
  t.strictSame(
    decide(old, { ...facts, recorded, now: now + correctionsMs }),
    { kind: 'write' },
    'an hour later it is over',
  )
  t.strictSame(recordCorrection(recorded, other, now), { since: 0, by: 'kubectl-edit', corrections: [now] })
  const unknown = finding({ by: undefined })
  t.strictSame(recordCorrection(recorded, unknown, now), { since: 0 }, 'nobody can be named')
})

t.test('what a frozen leader does late is written again, in every mode, in the first two minutes', async (t) => {
  const settling = { ...facts, isSettling: true, policy: { ...policy, mode: 'none' as const } }
  const late = finding({ by: undefined, isAppliedSince: true })
  t.strictSame(decide(late, settling), { kind: 'write' })
  t.strictSame(decide(finding({ isDeleted: true, by: undefined }), settling), { kind: 'write' })
  const seenBefore = { since: now - 5, isDeleted: true }
  const gone = finding({ isDeleted: true, by: undefined, since: now - 5 })
  t.strictSame(decide(gone, { ...settling, recorded: seenBefore }), { kind: 'left', because: { kind: 'mode' } })
  t.strictSame(decide(finding(), settling), { kind: 'left', because: { kind: 'mode' } }, 'a person is no frozen leader')
  t.strictSame(decide(late, { ...settling, isSettling: false }), {
    kind: 'left',
    because: { kind: 'mode' },
  })
})

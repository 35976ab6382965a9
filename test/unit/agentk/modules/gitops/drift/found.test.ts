import t from 'tap'
import { decide } from '../../../../../../src/agentk/modules/gitops/drift/drift-policy.ts'
import type { Explanation } from '../../../../../../src/agentk/modules/gitops/drift/explanation.ts'
import { findingOf } from '../../../../../../src/agentk/modules/gitops/drift/found.ts'
import type { DifferenceKind, Finding } from '../../../../../../src/agentk/modules/gitops/finding.ts'
import { recentCorrections } from '../../../../../../src/agentk/modules/gitops/inventory/corrections.ts'
import { driftedObject } from '../../../../../../src/agentk/modules/gitops/state/drift-state.ts'
import { driftLine } from '../../../../../../src/agentk/modules/gitops/state/drift-text.ts'

const now = Date.parse('2026-06-01T00:00:00Z')
const key = { group: '', kind: 'ConfigMap', namespace: 'shop', name: 'web' }
const manifest = { key, version: 'v1', object: {}, digest: 'd', file: 'web.yaml', line: 3 }
const of = { live: { resourceVersion: '7' }, holdUntil: undefined } as unknown as Extract<
  Explanation,
  { kind: 'drifted' }
>['of']
const changed = (time: number | undefined, kind: DifferenceKind = 'changed'): Explanation & { kind: 'drifted' } => ({
  kind: 'drifted',
  of,
  differences: [{ path: '.data.a', kind }],
  more: 0,
  by: { manager: 'kubectl-edit', operation: 'Update', ...(time !== undefined && { time }) },
  again: undefined,
})
const facts = { recorded: undefined, before: undefined, now }
const policy = { mode: 'correct' as const, afterMs: 300_000, removesAdded: false }
const decisionOf = (finding: Finding, at = now) =>
  decide(finding, { policy, recorded: undefined, isSettling: false, isPaused: false, now: at })

t.test('a time that no change can have is not known: anybody who may write an object can forge it', async (t) => {
  const times = [now + 6000, Date.parse('9999-12-31T23:59:59Z'), 8.64e15, 0, -1, Date.parse('0001-01-01T00:00:00Z')]
  for (const time of times) {
    const found = findingOf(manifest, changed(time), facts)
    t.equal(found.since, now, String(time))
    t.strictSame(found.by, { manager: 'kubectl-edit', operation: 'Update' }, 'its author stays')
    t.strictSame(decisionOf(found), { kind: 'later', at: now + 300_000 }, 'it is no hold for ever')
    const shown = driftedObject({ finding: found, decision: decisionOf(found) }, 20)
    t.match(shown, { changedAtMs: 0n, sinceMs: BigInt(now) })
    t.match(driftLine(shown), /by kubectl-edit \(Update\); it is set back at 2026-06-01T00:05:00Z$/)
  }
  t.equal(findingOf(manifest, changed(now + 900), facts).since, now + 900, 'clocks differ a little')
  t.equal(findingOf(manifest, changed(undefined), facts).since, now)
})

t.test('a recorded time that is none, or is to come, counts as no record', async (t) => {
  for (const since of [0, -5, 8.64e15, Number.MAX_SAFE_INTEGER, now + 6000]) {
    const { since: found } = findingOf(
      manifest,
      { kind: 'deleted' },
      { ...facts, recorded: { since, isDeleted: true } },
    )
    t.equal(found, now, String(since))
  }
  const recorded = { since: now - 7, isDeleted: true }
  t.equal(findingOf(manifest, { kind: 'deleted' }, { ...facts, recorded }).since, now - 7)
})

t.test('further changes do not put a correction off', async (t) => {
  let before = findingOf(manifest, changed(now), facts)
  for (let minute = 1; minute < 10; minute++) {
    const at = now + minute * 60_000
    before = findingOf(manifest, changed(at), { ...facts, before, now: at })
    t.equal(before.since, now)
    t.equal(decisionOf(before, at).kind, minute < 5 ? 'later' : 'write', `minute ${minute}`)
  }
})

t.test('what Git does not set, and stays for good, does not speed up a correction of what it sets', async (t) => {
  const before = findingOf(manifest, changed(now - 1e9, 'added'), facts)
  t.equal(before.since, now - 1e9)
  t.equal(findingOf(manifest, changed(now), { ...facts, before }).since, now)
  const gone = findingOf(manifest, { kind: 'deleted' }, { ...facts, before })
  t.equal(gone.since, now, 'nor does a change that of a deletion')
})

t.test(
  'corrections far from now do not count, so that an edited inventory leaves nothing to others for ever',
  async (t) => {
    const corrections = [now + 1e12, now - 1e12, now - 1, now + 1]
    t.strictSame(recentCorrections({ since: 0, by: 'a', corrections }, now), [now - 1, now + 1])
  },
)

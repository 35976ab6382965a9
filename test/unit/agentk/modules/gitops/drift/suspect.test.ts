import t from 'tap'
import {
  type Baseline,
  baselineOf,
  isProven,
  isRewritten,
  mayBeScaled,
  type Reference,
  suspicion,
} from '../../../../../../src/agentk/modules/gitops/drift/suspect.ts'
import { type FieldSet, fieldsHash } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { type Entry, entry, id, isAdder, leaf, manager, object, ownEntry } from './managed.ts'

const own = { 'f:spec': { 'f:replicas': leaf, 'f:x': leaf } }
const notScaled = { 'f:spec': { 'f:x': leaf } }
const reference: Reference = {
  uid: 'u1',
  owner: id,
  digest: 'd1',
  fields: fieldsHash(own),
  time: '2026-06-01T00:00:00Z',
  generation: 3,
}
const live = (managedFields: readonly Entry[], metadata: object = {}) =>
  object({}, managedFields, { generation: 3, ...metadata })
const judge = (found: object | undefined, baseline?: Baseline, of: Reference = reference) =>
  suspicion(of, found as never, { manager, isAdder, baseline })
/** @returns the reasons; empty: `no`; another kind as it is */
const reasons = (found: object | undefined, baseline?: Baseline, of?: Reference) => {
  const result = judge(found, baseline, of)
  return result.kind === 'suspect' ? result.reasons : result.kind === 'no' ? [] : result.kind
}

t.test('an object as it was applied is not suspect', async (t) => {
  t.strictSame(reasons(live([ownEntry(own)])), [])
  const busy = [
    ownEntry(own),
    entry('kcm', { 'f:status': leaf }, { subresource: 'status' }),
    entry('controller', { 'f:spec': { 'f:nodeName': leaf } }),
    entry('kubectl-label', { 'f:metadata': { 'f:labels': { 'f:mine': leaf } } }),
    entry('kubectl-client-side-apply', own, { operation: 'Apply' }),
  ]
  t.strictSame(reasons(live(busy)), [], 'others write beside it')
})

t.test('an apply that has changed only the owners asks for no comparison', async (t) => {
  const all = { 'f:spec': { 'f:x': leaf, 'f:paused': leaf, 'f:strategy': leaf } }
  const agreed = entry('kubectl', all, { operation: 'Apply', time: undefined })
  t.strictSame(reasons(live([ownEntry(own), agreed])), [])
  const timed = entry('kubectl', all, { operation: 'Apply' })
  t.strictSame(reasons(live([ownEntry(own), timed])), ['added'])
  const both = [ownEntry(own), agreed, entry('kubectl-edit', { 'f:spec': { 'f:paused': leaf } })]
  t.strictSame(reasons(live(both)), ['added'], 'it does not hide what another tool has added')
})

t.test('each mark and each part of the own entry counts', async (t) => {
  const entries = [ownEntry(own)]
  t.equal(reasons(undefined), 'gone')
  t.equal(reasons(live(entries, { deletionTimestamp: '2026-06-01T00:00:09Z' })), 'beingDeleted')
  t.strictSame(reasons(live(entries, { uid: 'u2' })), ['uid'])
  t.strictSame(reasons(live(entries, { labels: {} })), ['mark'])
  t.strictSame(reasons(live(entries, { annotations: undefined })), ['mark'])
  t.strictSame(reasons(live(entries), undefined, { ...reference, owner: '42-8' }), ['mark'])
  t.strictSame(reasons(live(entries), undefined, { ...reference, digest: 'd2' }), ['mark'])
  t.strictSame(reasons(live([ownEntry({ 'f:spec': { 'f:replicas': leaf } })])), ['hash'])
  t.strictSame(reasons(live([entry('other', own)])), ['hash'], 'the entry is not there')
  t.strictSame(reasons(live([])), ['erased'])
  t.strictSame(reasons({ metadata: { ...live([]).metadata, managedFields: undefined } }), ['erased'])
  t.strictSame(reasons(live([], { uid: 'u2', labels: {} })), ['uid', 'mark', 'erased'])
})

t.test('the source’s own manager has written again, as a frozen leader does', async (t) => {
  const digest = { 'f:metadata': { 'f:annotations': { 'f:agent.gitlab.com/digest': leaf } } }
  const marked = { ...own, ...digest }
  const is = (found: object, of: Reference = reference) => isRewritten(of, found as never, manager)
  const older = { annotations: { 'config.k8s.io/owning-inventory': id, 'agent.gitlab.com/digest': 'd0' } }
  t.equal(is(live([ownEntry(own)])), false)
  t.equal(is(live([ownEntry(own, { time: '2026-06-01T00:00:05Z' })])), true)
  t.equal(is(live([ownEntry(marked)], older)), true, 'within the same second')
  t.equal(is(live([ownEntry(own), entry('kubectl-edit', digest)], older)), false, 'somebody else has')
  const { time: _, ...unknown } = reference
  t.equal(is(live([ownEntry(own, { time: '2026-06-01T00:00:05Z' })]), unknown), false, 'an older agentk kept no time')
  t.equal(is(live([ownEntry(marked)], older), unknown), true)
  t.equal(is(live([])), false)
})

t.test('a missing time is compared like any other', async (t) => {
  const timed = live([ownEntry(own)])
  const untimed = live([ownEntry(own, { time: undefined })])
  t.strictSame(reasons(live([ownEntry(own, { time: '2026-06-01T00:00:05Z' })])), ['time'])
  t.strictSame(reasons(untimed), ['time'])
  t.strictSame(reasons(untimed, undefined, { ...reference, time: '' }), [])
  t.strictSame(reasons(timed, undefined, { ...reference, time: '' }), ['time'])
  const unknown = { ...reference, uid: '', digest: '', fields: '', time: undefined, generation: undefined }
  t.strictSame(reasons(untimed, undefined, unknown), [], 'a fact that is not known is not compared')
  t.strictSame(reasons(live([], { uid: 'u2' }), undefined, unknown), ['erased'])
})

t.test('fields that only tools of people own, outside of metadata and status', async (t) => {
  const adds = (fields: FieldSet, more: object = {}, name = 'kubectl-edit') => [
    ownEntry(own),
    entry(name, fields, more),
  ]
  const paused = { 'f:spec': { 'f:paused': leaf } }
  t.strictSame(reasons(live(adds(paused))), ['added'])
  t.strictSame(reasons(live(adds(paused, {}, 'controller'))), [])
  t.strictSame(reasons(live(adds(own))), [], 'it shares a value')
  t.strictSame(reasons(live([...adds(paused), entry('controller', paused)])), [], 'a controller has it too')
  t.strictSame(reasons(live(adds({ 'f:status': leaf }, { subresource: 'status' }))), [])
  const restarted = { 'f:spec': { 'f:template': { 'f:metadata': { 'f:annotations': { 'f:any/restartedAt': leaf } } } } }
  t.strictSame(reasons(live(adds(restarted))), [], 'a restart')
  const { baseline } = judge(live(adds(paused))) as { baseline: Baseline }
  t.equal(judge(live(adds(paused)), baseline).kind, 'unchanged')
  t.match(judge(live(adds(paused, { time: '2026-06-01T00:00:02Z' })), baseline), { kind: 'suspect' })
  t.match(judge(live([ownEntry(own)]), baseline), { kind: 'no' }, 'it was removed again')
  const options = { manager, isAdder: () => true }
  t.equal(suspicion(reference, live([ownEntry(own), entry(manager, paused)]), options).kind, 'no', 'our own manager')
})

t.test('a generation that moved while no entry but the status did', async (t) => {
  const status = (second: number) => entry('kcm', { 'f:status': leaf }, { subresource: 'status', time: at(second) })
  const at = (second: number) => `2026-06-01T00:00:0${second}Z`
  const old = entry('controller', { 'f:spec': { 'f:y': leaf } }, { time: '2026-05-31T00:00:00Z' })
  const before = live([ownEntry(own), old, status(1)])
  const baseline = baselineOf(before, manager)
  const moved = live([ownEntry(own), old, status(5)], { generation: 4 })
  t.strictSame(reasons(moved, baseline), ['order'])
  t.strictSame(reasons(moved), ['order'], 'after a restart')
  const scaled = live([ownEntry(own), { ...old, time: at(5) }, status(5)], { generation: 4 })
  t.strictSame(reasons(scaled, baseline), [], 'an entry explains it')
  t.strictSame(reasons(scaled), [])
  const next = baselineOf(scaled, manager)
  t.equal(judge(scaled, next).kind, 'unchanged')
  t.strictSame(reasons(live([ownEntry(own), { ...old, time: at(5) }, status(6)], { generation: 5 }), next), ['order'])
  t.equal(judge(live([ownEntry(own), { ...old, time: at(5) }, status(7)], { generation: 4 }), next).kind, 'unchanged')
  t.strictSame(reasons(moved, undefined, { ...reference, generation: undefined }), [], 'not known')
  t.strictSame(reasons(moved, undefined, { ...reference, time: undefined }), [], 'not known')
  const without = live([ownEntry(own)], { generation: undefined })
  t.strictSame(reasons(without, undefined, { ...reference, generation: 0 }), [], 'a kind without generation')
})

t.test('replicas that only `scale` has taken: an autoscaler may own them', async (t) => {
  const scale = (name: string) =>
    entry(name, { 'f:spec': { 'f:replicas': leaf } }, { subresource: 'scale', time: undefined })
  const byHpa = scale('kube-controller-manager')
  t.strictSame(reasons(live([ownEntry(notScaled), byHpa])), ['scaled'])
  t.strictSame(reasons(live([ownEntry({ 'f:spec': { 'f:y': leaf } }), byHpa])), ['hash'])
  t.strictSame(reasons(live([ownEntry(notScaled)])), ['hash'], 'nobody scaled it')
  const left = { ...reference, fields: fieldsHash(notScaled) }
  t.strictSame(reasons(live([ownEntry(notScaled), byHpa]), undefined, left), [])
  t.strictSame(reasons(live([ownEntry(notScaled), scale('kubectl')]), undefined, left), ['replicas'], 'kubectl scale')
  const edited = [ownEntry(notScaled), scale('kubectl'), entry('kubectl-edit', { 'f:spec': { 'f:paused': leaf } })]
  t.strictSame(reasons(live(edited), undefined, left), ['added', 'replicas'])
  // its entry has no time: a second scale is seen by the generation alone
  const before = baselineOf(live([ownEntry(notScaled), byHpa]), manager)
  const again = live([ownEntry(notScaled), byHpa], { generation: 4 })
  t.strictSame(reasons(again, before, left), ['order'])
  t.strictSame(reasons(again, before), ['scaled', 'order'])
  t.strictSame(reasons(again, undefined, left), ['order'], 'after a restart')
  t.equal(mayBeScaled(judge(again, before)), true)
  t.equal(mayBeScaled(judge(live(edited), undefined, left)), false)
  t.equal(mayBeScaled(judge(live([ownEntry(own)]))), false)
})

t.test('metadata that did not move keep their verdict', async (t) => {
  const drifted = live([ownEntry(notScaled), entry('ed', { 'f:spec': { 'f:replicas': leaf } })])
  const first = judge(drifted) as { baseline: Baseline }
  t.match(first, { kind: 'suspect', reasons: ['hash'] })
  t.strictSame(judge(drifted, first.baseline), { kind: 'unchanged' })
  const metadata = {
    ...drifted.metadata,
    resourceVersion: '9',
    annotations: { ...drifted.metadata.annotations, x: 'y' },
  }
  t.equal(judge({ metadata }, first.baseline).kind, 'unchanged', 'no entry recorded it')
  for (const [about, found] of Object.entries({
    generation: live(drifted.metadata.managedFields, { generation: 4 }),
    mark: live(drifted.metadata.managedFields, { labels: {} }),
    uid: live(drifted.metadata.managedFields, { uid: 'u2' }),
    time: live([
      ownEntry(notScaled),
      entry('ed', { 'f:spec': { 'f:replicas': leaf } }, { time: '2027-01-01T00:00:00Z' }),
    ]),
  }))
    t.match(judge(found, first.baseline), { kind: 'suspect' }, about)
})

t.test('reasons that prove a change by themselves', async (t) => {
  t.equal(isProven(judge(live([ownEntry(notScaled)]))), true)
  t.equal(isProven(judge(live([ownEntry(own)], { uid: 'u2' }))), true)
  t.equal(isProven(judge(live([]))), false, 'erased')
  const scale = entry('kubectl', { 'f:spec': { 'f:replicas': leaf } }, { subresource: 'scale' })
  t.equal(isProven(judge(live([ownEntry(notScaled), scale]))), true, 'scaled')
  t.equal(isProven(judge(live([ownEntry(own), entry('k9s', { 'f:spec': { 'f:y': leaf } })]))), false, 'added')
  t.equal(isProven(judge(live([ownEntry(own)]))), false)
  t.equal(isProven(judge(undefined)), false)
})

t.test('bad input: metadata of any shape, forged and many entries', async (t) => {
  for (const found of [
    {},
    { metadata: null },
    { metadata: { managedFields: 'x' } },
    { metadata: { managedFields: [{}] } },
  ])
    t.equal(judge(found).kind, 'suspect', JSON.stringify(found))
  const deep = Array.from({ length: 10_000 }).reduce<FieldSet>((inner) => ({ 'f:x': inner }), {})
  t.strictSame(reasons(live([ownEntry(own), entry('controller', deep)])), [])
  t.strictSame(reasons(live([ownEntry(deep)])), ['hash'], 'a forged entry of the source')
  const many = Array.from({ length: 5000 }, (_, i) =>
    entry(`kubectl-${i}`, { 'f:data': { [`f:k${i}`]: leaf } }, { operation: 'Apply' }),
  )
  const began = process.cpuUsage()
  t.strictSame(reasons(live([ownEntry(own), ...many])), ['added'])
  const { user } = process.cpuUsage(began)
  t.ok(user < 5_000_000, `${user} us`)
})

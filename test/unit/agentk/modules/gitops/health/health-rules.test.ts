import t from 'tap'
import { WrittenRules } from '../../../../../../src/agentk/health/custom/written-rules.ts'
import { healthRules } from '../../../../../../src/agentk/modules/gitops/health/health-rules.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { eventually } from '../../../../../support/eventually.ts'

const rule = (kind: string, when: string, verdict = 'Degraded', more: object = {}) => ({
  kind,
  rules: [{ when, verdict, text: '"by a rule"' }],
  ...more,
})
const objectOf = (apiVersion: string, kind: string, more: object = {}) => ({
  apiVersion,
  kind,
  metadata: { name: 'one', namespace: 'shop' },
  ...more,
})
const map = objectOf('v1', 'ConfigMap', { data: { state: 'bad' } })
const thing = objectOf('example.com/v1', 'Thing')

function start(written = new WrittenRules()) {
  let ms = 0
  const pace = { step: 0, now: () => (ms += pace.step) }
  const { log, lines } = capturedLog()
  const rules = healthRules({ written, pace, log })
  let changes = 0
  const ended = new AbortController()
  rules.onChange(() => changes++, ended.signal)
  return { written, rules, pace, lines, changes: () => changes, end: () => ended.abort() }
}

t.test('rules of views.yaml decide, whatever kind they are for, and end with the file', async (t) => {
  const { written, rules, changes, end } = start()
  t.equal(rules.isJudged('ConfigMap'), false)
  written.set([rule('ConfigMap', 'object.data.state == "bad"'), rule('*.example.com/*', 'true', 'Suspended'), 7])
  await eventually(() => changes() === 1)
  t.equal(rules.isJudged('ConfigMap'), true)
  for (const kind of ['ConfigMap', 'group.example.com/Thing']) await rules.ready(kind)
  t.match(rules.verdictsOf(map), { users: { status: 'Degraded', text: 'by a rule' } })
  const ofGroup = objectOf('group.example.com/v1', 'Thing')
  t.match(rules.verdictsOf(ofGroup), { users: { status: 'Suspended' } })
  written.set([])
  await eventually(() => changes() === 2)
  t.equal(rules.isJudged('ConfigMap'), false)
  t.strictSame(rules.verdictsOf(map), { argo: undefined })
  end()
  written.set([rule('ConfigMap', 'true')])
  await rules.ready('ConfigMap')
  t.equal(changes(), 2, 'nobody listens any more')
})

t.test('they are there before the first source, and a Secret is never judged', async (t) => {
  const written = new WrittenRules()
  written.set([rule('Secret', 'true'), rule('Pod', 'true')])
  const { rules, changes } = start(written)
  await eventually(() => changes() === 1)
  t.equal(rules.isJudged('Secret'), false)
  t.strictSame(rules.verdictsOf(objectOf('v1', 'Secret')), { argo: undefined })
  t.match(rules.verdictsOf(objectOf('v1', 'Pod')), { users: { status: 'Degraded' } }, 'Pods explain workloads')
})

t.test('a rule that cannot be used has its last good form, else none', async (t) => {
  const { written, rules, changes, lines } = start()
  written.set([rule('ConfigMap', 'true'), rule('Thing', 'no such (')])
  await eventually(() => changes() === 1)
  t.match(JSON.stringify(lines), /A rule of health is not used/)
  written.set([rule('ConfigMap', 'also broken (')])
  await eventually(() => changes() === 2)
  await rules.ready('ConfigMap')
  t.match(rules.verdictsOf(map), { users: { status: 'Degraded' } })
})

t.test('a rule that takes too long is put aside until views.yaml changes', async (t) => {
  const { written, rules, changes, pace, lines } = start()
  written.set([rule('example.com/Thing', 'true')])
  await eventually(() => changes() === 1)
  await rules.ready('example.com/Thing')
  pace.step = 251
  t.match(rules.verdictsOf(thing), { users: { status: 'Degraded' } })
  t.strictSame(rules.verdictsOf(thing), { argo: undefined })
  t.match(JSON.stringify(lines), /takes too long/)
  pace.step = 1
  written.set([rule('example.com/Thing', 'true')])
  await eventually(() => changes() === 2)
  await rules.ready('example.com/Thing')
  t.match(rules.verdictsOf(thing), { users: { status: 'Degraded' } })
})

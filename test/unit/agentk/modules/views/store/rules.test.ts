import t from 'tap'
import {
  type CustomRuleSource,
  customRuleSchema,
} from '../../../../../../src/agentk/health/custom/custom-rule-schema.ts'
import { vendorRules } from '../../../../../../src/agentk/health/custom/vendors.ts'
import { Rules } from '../../../../../../src/agentk/modules/views/store/rules.ts'

const now = Date.parse('2026-01-01T00:00:00Z')
const source = (kind: string, verdict: string, more: object = {}): CustomRuleSource =>
  customRuleSchema.parse({ kind, rules: [{ when: 'true', verdict }], ...more })
const object = (apiVersion: string, kind: string, more: object = {}) => ({ apiVersion, kind, ...more })
const thing = object('example.com/v1', 'Thing')

t.test("a user's rule goes before a vendor's, this one before Argo CD's, each by its own", async (t) => {
  const vendors = [source('example.com/Thing', 'Degraded'), source('example.com/Other', 'Degraded')]
  const rules = new Rules([source('example.com/Thing', 'Suspended'), source('Po*', 'Missing')], vendors)
  const argo = (one: object) => rules.judge(one as Record<string, unknown>, now).health.argo
  t.equal(argo(thing), '', 'no rule is ready yet')
  for (const kind of ['example.com/Thing', 'example.com/Other', 'Pod', 'Service', 'ConfigMap']) await rules.ready(kind)
  t.equal(argo(thing), 'Suspended')
  t.equal(argo(object('example.com/v1', 'Other')), 'Degraded')
  t.equal(argo(object('v1', 'Pod', { status: { phase: 'Succeeded' } })), 'Missing')
  t.equal(argo(object('v1', 'Service')), 'Healthy')
  t.equal(argo(object('v1', 'ConfigMap')), '')
})

t.test('both systems, with their texts, and when it is due', async (t) => {
  const rules = new Rules([], [])
  const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }]
  const metadata = { creationTimestamp: '2025-12-31T23:59:50Z' }
  const pod = object('v1', 'Pod', { metadata, status: { phase: 'Pending', message: 'x'.repeat(9999), conditions } })
  const { health, dueAt } = rules.judge(pod, now)
  t.match(health, { argo: 'Progressing', kstatus: 'InProgress', kstatusText: 'Pod has not been scheduled' })
  t.equal(health.argoText.length, 512)
  t.equal(dueAt, now + 5000)
})

t.test('a rule that is not used, or an expression without a value, is told', async (t) => {
  const broken = source('example.com/Broken', 'Healthy', { tests: [{ object: {}, verdict: 'Degraded' }] })
  const erring = source('example.com/Thing', 'Healthy', { rules: [{ when: 'object.none > 1', verdict: 'Healthy' }] })
  const rules = new Rules([broken, erring], [source('example.com/Broken', 'Progressing')])
  await rules.checkUsers()
  t.match([...rules.problems], [['example.com/Broken', /Healthy, not Degraded/]], 'before any object comes')
  for (const kind of ['example.com/Broken', 'example.com/Thing']) await rules.ready(kind)
  t.equal(rules.judge(object('example.com/v1', 'Broken'), now).health.argo, 'Progressing', "the vendor's instead")
  const { health } = rules.judge(thing, now)
  t.equal(health.argo, '')
  t.match(health.argoText, /none/)
  t.match(rules.problems.get('example.com/Thing'), /none/)
})

t.test('problems are kept of so many kinds', async (t) => {
  const rules = new Rules(
    [source('example.com/*', 'Healthy', { rules: [{ when: 'object.x', verdict: 'Healthy' }] })],
    [],
  )
  for (let i = 0; i < 100; i++) {
    await rules.ready(`example.com/Thing${i}`)
    rules.judge(object('example.com/v1', `Thing${i}`), now)
  }
  t.equal(rules.problems.size, 64)
})

t.test('more than metadata is read where a rule or a relation wants it', async (t) => {
  const rules = new Rules([source('example.com/*', 'Healthy')], await vendorRules())
  for (const kind of [
    'Pod',
    'apps/Deployment',
    'discovery.k8s.io/EndpointSlice',
    'example.com/Thing',
    'cert-manager.io/Certificate',
    'gateway.networking.k8s.io/HTTPRoute',
    'helm.toolkit.fluxcd.io/HelmRelease',
  ]) {
    t.ok(rules.wantsStatus(kind), kind)
  }
  for (const kind of ['ConfigMap', 'rbac.authorization.k8s.io/Role', 'Thing']) t.notOk(rules.wantsStatus(kind), kind)
  t.notOk(new Rules([source('*', 'Healthy')], []).wantsStatus('Secret'), 'never')
  t.ok(new Rules([source('*', 'Healthy')], []).wantsStatus('ConfigMap'))
})

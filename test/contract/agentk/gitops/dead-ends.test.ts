import t, { type Test } from 'tap'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { map, RowsSide } from './rows-side.ts'

/** Cases in which a source cannot go on by itself. The row names a remedy, and the remedy works. */

const admission = 'admissionregistration.k8s.io'
const webhook = (namespace: string) => `
apiVersion: ${admission}/v1
kind: ValidatingWebhookConfiguration
metadata: { name: ${namespace} }
webhooks:
- name: ${namespace}.example.com
  clientConfig: { service: { namespace: ${namespace}, name: nobody } }
  failurePolicy: Fail
  rules: [{ apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments] }]
  namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: ${namespace} } }
  admissionReviewVersions: [v1]
  sideEffects: None
`
const policy = (namespace: string) => `
apiVersion: ${admission}/v1
kind: ValidatingAdmissionPolicy
metadata: { name: ${namespace} }
spec:
  matchConstraints: { resourceRules: [{ apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments] }] }
  validations: [{ expression: "false", message: none here }]
---
apiVersion: ${admission}/v1
kind: ValidatingAdmissionPolicyBinding
metadata: { name: ${namespace} }
spec:
  policyName: ${namespace}
  validationActions: [Deny]
  matchResources: { namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: ${namespace} } } }
`
const apiService = (namespace: string) => `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: { name: v1.${namespace}.example.com }
spec: { group: ${namespace}.example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 10, service: { name: nobody, namespace: ${namespace} }, insecureSkipTLSVerify: true }
`
const crd = (namespace: string) => `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: things.${namespace}.example.com }
spec:
  group: ${namespace}.example.com
  scope: Namespaced
  names: { plural: things, kind: Thing, singular: thing }
  versions: [{ name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } } }]
`
const deployment = (strategy = '') => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  ${strategy}
  selector: { matchLabels: { app: web } }
  template: { metadata: { labels: { app: web } }, spec: { containers: [{ name: a, image: a }] } }
`
const service =
  'apiVersion: v1\nkind: Service\nmetadata: { name: svc }\nspec: { ports: [{ name: http, port: 80 }], selector: { app: web } }\n'

t.test('dead ends', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'gitops', ''), { metadata: { name: 'gitops' } })
  const side = new RowsSide(ground, 700n)
  const start = async (t: Test, namespace: string, block: object = {}) => {
    await ground.create(keyOf('Namespace', namespace, ''), { metadata: { name: namespace } })
    const pruning = { prune_confirm: [], prune_limit: '100%', prune_propagation_policy: 'background' }
    const source = { id: 'platform/shop', default_namespace: namespace, ...pruning, ...block }
    const started = await side.start(t, [source])
    const { shown, id } = started
    /** Approves the plan as the row says. */
    const approve = async () => {
      await eventually(() => shown()?.next.startsWith('kubectl annotate'))
      const [, name, value] =
        / (gitops-\S+-sync) -n gitops agent\.gitlab\.com\/approve=(\S+)$/.exec(shown()?.next ?? '') ?? []
      t.equal(name, `gitops-${id}-sync`)
      const annotations = { 'agent.gitlab.com/approve': value }
      await ground.merge(keyOf('ConfigMap', name ?? '', 'gitops'), { metadata: { annotations } })
    }
    return { ...started, approve }
  }
  const isRefused = async (namespace: string) => {
    const labels = { app: 'probe' }
    const template = { metadata: { labels }, spec: { containers: [{ name: 'a', image: 'a' }] } }
    const probe = { metadata: { name: 'probe' }, spec: { selector: { matchLabels: labels }, template } }
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments?dryRun=All`
    return (await ground.client.json('POST', path, probe)).status >= 400
  }

  for (const [namespace, refuser, text] of [
    ['by-webhook', webhook, /failed calling webhook "by-webhook\.example\.com"/],
    ['by-policy', policy, /ValidatingAdmissionPolicy 'by-policy'.*none here/],
  ] as const) {
    await t.test(`an object is refused ${namespace}, and what refuses it has left Git`, async (t) => {
      const { project, row, becomes, exit, approve, stop } = await start(t, namespace)
      const kept = { 'kept.yaml': map('kept') }
      project.push({ ...kept, 'refuser.yaml': refuser(namespace) })
      await becomes(Phase.SYNCED)
      await eventually(() => isRefused(namespace))
      project.push({ ...kept, 'web.yaml': deployment() })
      await becomes(Phase.FAILING)
      await eventually(() => (row()?.leaving.length ?? 0) > 0)
      t.match(row()?.trouble, [{ key: { name: 'web' }, text }])
      t.match(row()?.leaving[0], { code: 'neededByFailed', text: /^it may be what refuses part of the commit/ })
      t.equal(await exit(), 1)
      await approve()
      t.match(await becomes(Phase.SYNCED), { kept: [], trouble: [] })
      t.ok(await ground.get(keyOf('Deployment', 'web', namespace, 'apps')))
      await stop()
    })
  }

  await t.test('an APIService that nobody serves, and has left Git', async (t) => {
    const namespace = 'by-api'
    const { project, row, becomes, approve, stop } = await start(t, namespace)
    const kept = { 'kept.yaml': map('kept') }
    project.push({ ...kept, 'api.yaml': apiService(namespace) })
    await becomes(Phase.SYNCED)
    const thing = `apiVersion: ${namespace}.example.com/v1\nkind: Thing\nmetadata: { name: a }\n`
    project.push({ ...kept, 'crd.yaml': crd(namespace), 'thing.yaml': thing })
    await becomes(Phase.FAILING)
    await eventually(() => (row()?.leaving.length ?? 0) > 0)
    t.match(row()?.trouble, [{ key: { kind: 'Thing' } }])
    t.match(row()?.leaving, [{ key: { kind: 'APIService' }, code: 'neededByFailed' }])
    await approve()
    await becomes(Phase.SYNCED)
    await stop()
  })

  await t.test('Recreate after a strategy whose values were defaulted; a port that was changed by hand', async (t) => {
    const { project, becomes, stop } = await start(t, 'by-hand')
    project.push({ 'web.yaml': deployment(), 'svc.yaml': service })
    await becomes(Phase.SYNCED)
    const ports = [{ name: 'http', port: 83 }]
    await ground.merge(keyOf('Service', 'svc', 'by-hand'), { spec: { ports } }, 'kubectl-edit')
    const next = service.replace('name: svc', 'name: svc, labels: { next: here }')
    project.push({ 'web.yaml': deployment('strategy: { type: Recreate }'), 'svc.yaml': next })
    const undone = 'Service by-hand/svc: kubectl-edit had changed spec.ports: it is as in Git again'
    t.match(await becomes(Phase.SYNCED), { problem: undone })
    t.match((await ground.get(keyOf('Service', 'svc', 'by-hand'))).spec.ports, [{ port: 80 }])
    t.equal((await ground.get(keyOf('Deployment', 'web', 'by-hand', 'apps'))).spec.strategy.type, 'Recreate')
    project.push({ 'web.yaml': deployment('strategy: { type: Recreate }'), 'svc.yaml': service, 'a.yaml': map('next') })
    t.match(await becomes(Phase.SYNCED), { problem: '' })
    await stop()
  })

  await t.test('a file that becomes a link out of the repository; another default branch', async (t) => {
    const link = 'a.yaml is a link to ../a.yaml, which is outside of the repository'
    const cases = [
      ['by-link', { leftOut: [link] }, link],
      ['by-branch', { branch: 'trunk' }, 'the default branch of the project is trunk now, and was main'],
    ] as const
    for (const [namespace, found, text] of cases) {
      const { project, row, becomes, approve, stop } = await start(t, namespace)
      const files = { 'a.yaml': map('leaves'), 'b.yaml': map('stays') }
      const leaves = async () => ground.get(keyOf('ConfigMap', 'leaves', namespace))
      project.header = { branch: 'main' }
      project.push(files)
      await becomes(Phase.SYNCED)
      project.header = found
      project.push({ 'b.yaml': files['b.yaml'] })
      await becomes(Phase.APPROVAL)
      t.match([row()?.problem, row()?.leaving[0]?.text].join(), text, namespace)
      project.header = { branch: 'main' }
      project.push(files)
      await becomes(Phase.SYNCED)
      t.ok(await leaves(), 'back as it was, nothing has gone')
      project.header = found
      project.push({ 'b.yaml': files['b.yaml'], 'c.yaml': map('more') })
      await becomes(Phase.APPROVAL)
      await approve()
      await becomes(Phase.SYNCED)
      t.equal(await leaves(), undefined, 'once it is approved')
      await stop()
    }
  })
})

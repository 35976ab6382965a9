import t from 'tap'
import { eventually } from '../../../support/eventually.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { type Files, Pod, type PodOptions } from './pod.ts'

/** Objects that refuse others (webhooks, policies): agentk applies them last and deletes them first. */

const admission = 'admissionregistration.k8s.io'
const policy = (kind: string, name: string) => keyOf(kind, name, '', admission)
const map = (name: string, metadata = '') =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: ${name}${metadata} }\ndata: {}\n`
const deployment = (name: string, replicas = 1) => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: ${name} }
spec:
  replicas: ${replicas}
  selector: { matchLabels: { app: ${name} } }
  template: { metadata: { labels: { app: ${name} } }, spec: { containers: [{ name: a, image: a }] } }
`
/** Returns a webhook that refuses all writes of a resource in a namespace: nothing serves it. */
const webhook = (name: string, namespace: string, resource: string, group = 'apps') => `
apiVersion: ${admission}/v1
kind: ValidatingWebhookConfiguration
metadata: { name: ${name} }
webhooks:
- name: ${name}.example.com
  clientConfig: { service: { namespace: ${namespace}, name: hook } }
  failurePolicy: Fail
  rules: [{ apiGroups: ["${group}"], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [${resource}] }]
  namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: ${namespace} } }
  admissionReviewVersions: [v1]
  sideEffects: None
`
const validating = (name: string, namespace: string) => `
apiVersion: ${admission}/v1
kind: ValidatingAdmissionPolicy
metadata: { name: ${name} }
spec:
  matchConstraints: { resourceRules: [{ apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps] }] }
  validations: [{ expression: "false" }]
---
apiVersion: ${admission}/v1
kind: ValidatingAdmissionPolicyBinding
metadata: { name: ${name} }
spec:
  policyName: ${name}
  validationActions: [Deny]
  matchResources: { namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: ${namespace} } } }
`
const service = 'apiVersion: v1\nkind: Service\nmetadata: { name: hook }\nspec: { ports: [{ port: 443 }] }\n'

t.test('what refuses objects', { skip, timeout: 240_000 }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'gitops', ''), { metadata: { name: 'gitops' } })
  let sources = 0n
  const start = async (namespace: string, answer: NonNullable<PodOptions['answer']> = () => undefined) => {
    await ground.create(keyOf('Namespace', namespace, ''), { metadata: { name: namespace } })
    const block = { default_namespace: namespace, prune_limit: '100%', prune_confirm: [], reconcile_timeout: '1s' }
    return new Pod(ground, { projectId: ++sources, block, answer })
  }
  /** Applies files, then once more with the approved plan. */
  const approve = async (pod: Pod, files: Files) => {
    const first = await pod.bring(files)
    t.match(first.planDigest, /^[0-9a-f]{64}$/)
    const second = await pod.bring(files, { approved: first.planDigest })
    return { first, second }
  }

  await t.test('accounts, configuration, workloads, webhooks: in this order, whatever their names', async (t) => {
    const sent: string[] = []
    const pod = await start('order', (method, path) => {
      const [, plural = ''] = /([a-z]+)\/[^/?]+\?.*fieldManager/.exec(path) ?? []
      if (method === 'PATCH' && plural !== '' && !sent.includes(plural)) sent.push(plural)
      return undefined
    })
    const account = 'apiVersion: v1\nkind: ServiceAccount\nmetadata: { name: z }\n'
    const bare =
      'apiVersion: v1\nkind: Pod\nmetadata: { name: a }\nspec: { serviceAccountName: z, containers: [{ name: a, image: a }] }\n'
    const hook = webhook('order', 'order', 'deployments, configmaps', '*')
    const all = [hook, deployment('hook'), bare, service, map('z'), account, validating('order', 'order')]
    const { kinds } = await pod.bring({ 'all.yaml': all.join('---\n') })
    t.match(kinds, { hook: 'applied', a: 'applied', z: 'applied', order: 'applied' })
    t.strictSame([...new Set(Object.values(kinds))], ['applied'])
    const expected = ['serviceaccounts', 'configmaps', 'services', 'deployments', 'validatingwebhookconfigurations']
    t.strictSame(
      sent.filter((plural) => expected.includes(plural)),
      expected,
    )
  })

  await t.test('a webhook that has left Git goes first, once somebody approves', async (t) => {
    const pod = await start('hooked')
    const files = { 'map.yaml': map('kept') }
    await pod.bring({ ...files, 'hook.yaml': webhook('hooked', 'hooked', 'deployments') })
    const depends = ', annotations: { config.kubernetes.io/depends-on: apps/namespaces/hooked/Deployment/web }'
    const next = { ...files, 'web.yaml': deployment('web'), 'after.yaml': map('after', depends) }
    const { first, second } = await eventually(async () => {
      const both = await approve(pod, next)
      return both.first.kinds.web === 'failed' && both
    })
    t.match(first.kinds, { kept: 'unchanged', web: 'failed', after: 'waits' })
    t.match(first.awaitingApproval, [{ key: { kind: 'ValidatingWebhookConfiguration', name: 'hooked' } }])
    t.match([...first.reasons.values()], [{ code: 'neededByFailed', text: /refuses part of the commit/ }])
    t.match(second.pruned, [{ name: 'hooked' }])
    t.equal(await ground.get(policy('ValidatingWebhookConfiguration', 'hooked')), undefined)
    await eventually(async () => (await pod.bring(next)).kinds.web === 'applied')
  })

  await t.test('so does a policy, whose refusal of a Secret is not shown', async (t) => {
    const pod = await start('secrets')
    const files = { 'map.yaml': map('kept') }
    const both = validating('secrets', 'secrets').replace('[configmaps]', '[secrets]')
    await pod.bring({ ...files, 'policy.yaml': both })
    const secret = 'apiVersion: v1\nkind: Secret\nmetadata: { name: a }\n'
    const probe = keyOf('Secret', 'probe', 'secrets')
    await eventually(async () => {
      const made = ground.create(probe, { metadata: { name: 'probe', generateName: 'probe-' } })
      return await made.then(
        () => ground.client.json('DELETE', ground.path(probe)).then(() => false),
        () => true,
      )
    })
    const { first, second } = await approve(pod, { ...files, 'secret.yaml': secret })
    t.match(first.ends, { a: { kind: 'failed', problem: { refuser: 'policy' } } })
    t.strictSame(second.pruned.map(({ kind }) => kind).sort(), [
      'ValidatingAdmissionPolicy',
      'ValidatingAdmissionPolicyBinding',
    ])
  })

  await t.test('an APIService that serves nothing', async (t) => {
    const pod = await start('served')
    const api = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: { name: v1.served.example.com }
spec: { group: served.example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 10, service: { name: hook, namespace: served }, insecureSkipTLSVerify: true }
`
    const files = { 'map.yaml': map('kept') }
    await pod.bring({ ...files, 'api.yaml': api })
    const thing = 'apiVersion: served.example.com/v1\nkind: Thing\nmetadata: { name: a }\n'
    const { second } = await approve(pod, { ...files, 'thing.yaml': thing })
    t.match(second.pruned, [{ kind: 'APIService' }])
  })

  await t.test('what refuses nothing stays, as does what is still in Git', async (t) => {
    const pod = await start('other')
    const files = { 'hook.yaml': webhook('other', 'other', 'deployments'), 'map.yaml': map('goes') }
    await pod.bring(files)
    const { kinds, planDigest, pruned } = await eventually(async () => {
      const done = await pod.bring({ 'hook.yaml': files['hook.yaml'], 'web.yaml': deployment('web') })
      return done.kinds.web === 'failed' && done
    })
    t.match([kinds.web, planDigest, pruned], ['failed', '', []])
  })
})

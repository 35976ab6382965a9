import t from 'tap'
import type { ApplyProblem } from '../../../../../../src/agentk/modules/gitops/live/refusal.ts'
import type { Manifest } from '../../../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { Governors } from '../../../../../../src/agentk/modules/gitops/preview/governors.ts'

/** Which refusals say nothing about a commit. */

const admission = 'admissionregistration.k8s.io'
const manifestOf = (
  kind: string,
  name: string,
  more: Partial<Manifest['key']> = {},
  object: object = {},
): Manifest => ({
  key: { group: '', kind, namespace: '', name, ...more },
  version: 'v1',
  object: { ...object },
  file: 'a.yaml',
  line: 1,
  digest: '',
})
const definition = manifestOf(
  'CustomResourceDefinition',
  'gadgets.example.com',
  { group: 'apiextensions.k8s.io' },
  { spec: { group: 'example.com', names: { kind: 'Gadget', plural: 'gadgets' } } },
)
const gadget = manifestOf('Gadget', 'one', { group: 'example.com', namespace: 'shop' })
const map = manifestOf('ConfigMap', 'map', { namespace: 'new' })
const changedOf = ({ key, object }: Manifest, hasLeft = false) => ({ key, objects: [object], hasLeft })
const problem = (kind: ApplyProblem['kind'], text = '', more: Partial<ApplyProblem> = {}) => ({ kind, text, ...more })

t.test('what comes with the same change', (t) => {
  const namespace = manifestOf('Namespace', 'new')
  const governors = new Governors({ manifests: [definition, namespace, gadget, map], changed: [] })
  t.match(governors.excuse(gadget, problem('unserved')), { text: /definition of its kind comes/ })
  t.match(governors.excuse(map, problem('absent', 'namespaces "new" not found')), { text: /its namespace comes/ })
  const lacks = { resource: 'serviceaccount', group: '', name: 'sa', namespace: '', isUnserved: false }
  t.equal(governors.excuse(map, problem('absent', '', { lacks })), undefined)
  t.equal(governors.excuse({ key: { ...map.key, namespace: 'other' } }, problem('absent')), undefined)
  t.end()
})

t.test('a definition counts if it changes', (t) => {
  const manifests = [definition, gadget]
  const refusal = problem('invalid', 'field not declared in schema')
  t.equal(new Governors({ manifests, changed: [] }).excuse(gadget, refusal), undefined)
  const changed = [changedOf(definition)]
  t.match(new Governors({ manifests, changed }).excuse(gadget, refusal), { text: /changes with it/, hasLeft: false })
  t.end()
})

t.test('a policy or a webhook counts by its name', (t) => {
  const policy = manifestOf('ValidatingAdmissionPolicy', 'p', { group: admission })
  const hooks = { webhooks: [{ name: 'a.example.com' }] }
  const webhook = manifestOf('ValidatingWebhookConfiguration', 'w', { group: admission }, hooks)
  const governors = new Governors({ manifests: [], changed: [changedOf(policy, true), changedOf(webhook)] })
  const byPolicy = (name: string) =>
    problem('invalid', `ValidatingAdmissionPolicy '${name}' with binding 'b' denied request`, { refuser: 'policy' })
  t.match(governors.excuse(map, byPolicy('p')), { text: /policy that refuses it/, hasLeft: true })
  t.equal(governors.excuse(map, byPolicy('other')), undefined)
  const byWebhook = (name: string) =>
    problem('denied', `admission webhook "${name}" denied the request`, { refuser: 'webhook' })
  t.match(governors.excuse(map, byWebhook('a.example.com')), { text: /webhook that refuses it/, hasLeft: false })
  t.equal(governors.excuse(map, byWebhook('b.example.com')), undefined)
  t.end()
})

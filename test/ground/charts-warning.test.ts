import { join } from 'node:path'
import t from 'tap'
import type { Rendering } from '../../dev/charts/helm.ts'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { inventoryLabel } from '../../src/agentk/modules/gitops/manifests/annotations.ts'
import { rendered, skip } from '../support/charts/chart-words.ts'
import { manifestsFolder, objectsOf, readManifest } from '../support/manifests.ts'

/**
 * The chart's warning about changes by hand: when there is one, its names, and its objects.
 * test/contract/agentk/gitops/changes-by-hand.test.ts asks a real API server.
 */

const least = join(import.meta.dirname, '../support/charts/agentk/least.yaml')
const policies = ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding']
const ofPolicies = (objects: readonly KubernetesObject[]) => objects.filter(({ kind }) => policies.includes(kind))

/** Returns the chart's policy and binding with GitOps on. */
async function policiesOf({ set = [], ...more }: Partial<Rendering> = {}): Promise<KubernetesObject[]> {
  const all = ['rbac.gitops.enabled=true', ...set]
  return ofPolicies(objectsOf(await rendered({ chart: 'agentk', values: [least], ...more, set: all }), 'agentk'))
}
const kindsOf = async (rendering: Partial<Rendering>) => (await policiesOf(rendering)).map(({ kind }) => kind)

t.test('the plain manifests have it, for the agent that they are for', async (t) => {
  const objects = readManifest(join(manifestsFolder, 'agentk-gitops/2-warning.yaml'))
  t.strictSame(
    objects.map(({ kind, metadata }) => [kind, metadata.name]),
    policies.map((kind) => [kind, 'agentk-kept-in-git-agentk']),
  )
  t.match(JSON.stringify(objects), /\.startsWith\('42-'\)/)
})

t.test('it is on where GitOps is on', { skip }, async (t) => {
  t.strictSame(await kindsOf({}), policies, 'by default')
  t.strictSame(await kindsOf({ set: ['rbac.gitops.warn=false'] }), [], 'turned off')
  t.strictSame(await kindsOf({ set: ['rbac.gitops.warn=null'] }), [], 'taken away')
  t.strictSame(await kindsOf({ set: ['rbac.gitops.enabled=false'] }), [], 'without GitOps')
})

t.test('a cluster that has no admission policies gets none', { skip }, async (t) => {
  const clusters: readonly (readonly [kubeVersion: string, apis: readonly string[], kinds: readonly string[]])[] = [
    ['1.25.16', [], []],
    ['1.29.15', [], []],
    ['1.29.15-eks-1a2b3c4', ['admissionregistration.k8s.io/v1beta1/ValidatingAdmissionPolicy'], []],
    ['1.30.0', [], policies],
    ['1.30.0-rc.1', [], policies],
    ['1.30.14-gke.1200', [], policies],
    ['1.36.0', ['admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy'], policies],
    ['1.36.0', ['admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration'], []],
  ]
  for (const [kubeVersion, apis, kinds] of clusters) {
    t.strictSame(await kindsOf({ kubeVersion, apis }), kinds, `${kubeVersion} ${apis.join()}`)
  }
})

t.test('each release has names of its own, which a cluster accepts', { skip }, async (t) => {
  const longest = { release: 'r'.repeat(53), namespace: 'n'.repeat(63) }
  const releases = [
    { release: 'agentk', namespace: 'agentk' },
    { release: 'one', namespace: 'agentk' },
    { release: 'agentk', namespace: 'one' },
    { release: 'a', namespace: 'b-c' },
    { release: 'a-b', namespace: 'c' },
    { release: 'a.b', namespace: 'c' },
    longest,
  ]
  const names = new Set<string>()
  for (const { release, namespace } of releases) {
    const [policy, binding] = await policiesOf({ release, namespace })
    const { name } = policy?.metadata ?? {}
    t.match(name, new RegExp(`^agentk-kept-in-git-${release}`))
    t.match(name, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/)
    t.ok(name.length <= 253, `${name.length} characters`)
    t.match(binding, { metadata: { name }, spec: { policyName: name, validationActions: ['Warn'] } })
    names.add(name)
  }
  t.equal(names.size, releases.length)
  t.ok(names.has('agentk-kept-in-git-agentk'))
})

t.test('it refuses nothing, and is of the objects of its agent', { skip }, async (t) => {
  const of = async (...set: string[]) => (await policiesOf({ set }))[0]?.spec
  const spec = await of('config.agentId=42')
  t.equal(spec.failurePolicy, 'Ignore')
  t.strictSame(spec.matchConstraints.objectSelector.matchExpressions, [{ key: inventoryLabel, operator: 'Exists' }])
  const prefixes = (text: unknown) => JSON.stringify(text).match(/startsWith\('\d+-'\)/g)
  t.strictSame(prefixes(spec), ["startsWith('42-')"])
  t.strictSame(prefixes(await of('config.agentId=4200000000')), ["startsWith('4200000000-')"], 'a large number')
  t.equal(prefixes(await of()), null, 'of any agent: the number is not known')
  const expressions: string[] = JSON.stringify(spec).match(/'agent\.gitlab\.com\/[^']*'/g) ?? []
  t.strictSame([...new Set(expressions)], [`'${inventoryLabel}'`])
})

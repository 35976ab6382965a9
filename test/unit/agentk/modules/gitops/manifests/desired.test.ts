import t from 'tap'
import { marked } from '../../../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import { type Desired, desired, digestOf } from '../../../../../../src/agentk/modules/gitops/manifests/desired.ts'
import type { Manifest } from '../../../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { readFiles } from '../../../../../../src/agentk/modules/gitops/manifests/read-yaml.ts'
import { outsideReach, type Reach } from '../../../../../../src/agentk/modules/gitops/manifests/scope.ts'
import { maxObjects } from '../../../../../../src/proto/gitops/limits.ts'

const scopes = {
  isNamespaced: (group: string, kind: string) =>
    new Map([
      ['/ConfigMap', true],
      ['/Secret', true],
      ['/Namespace', false],
      ['apps/Deployment', true],
      ['coordination.k8s.io/Lease', true],
      ['agent.gitlab.com/GitSync', true],
      ['apiextensions.k8s.io/CustomResourceDefinition', false],
    ]).get(`${group}/${kind}`),
}
const open = { defaultNamespace: 'default', resourceExclusions: [] }

function want(text: string, options: Partial<Reach & { defaultNamespace: string }> = {}): Desired {
  const { documents, problems } = readFiles([{ path: 'a.yaml', data: Buffer.from(text) }])
  t.strictSame(problems, [])
  return desired(documents, scopes, { ...open, ...options })
}

const names = (manifests: readonly Manifest[]) =>
  manifests.map(({ key }) => `${key.group}/${key.kind}/${key.namespace}/${key.name}`)
const object = (kind: string, name: string, namespace = '', apiVersion = 'v1') =>
  `{apiVersion: ${apiVersion}, kind: ${kind}, metadata: {name: ${name}${namespace && `, namespace: ${namespace}`}}}`
const all = (...objects: string[]) => objects.join('\n---\n')

t.test('objects get the namespace that their kind has', async (t) => {
  const { manifests, unknown, problems, detached } = want(
    all(object('ConfigMap', 'a'), object('ConfigMap', 'a', 'shop'), object('Namespace', 'shop', 'wrong')),
  )
  t.strictSame([problems, unknown, detached], [[], [], []])
  t.strictSame(names(manifests), ['/ConfigMap/default/a', '/ConfigMap/shop/a', '/Namespace//shop'])
  t.strictSame(
    manifests.map(({ object }) => object.metadata),
    [{ name: 'a', namespace: 'default' }, { name: 'a', namespace: 'shop' }, { name: 'shop' }],
  )
  t.match(manifests[1], { version: 'v1', file: 'a.yaml', line: 3 })
})

t.test('kinds that nobody serves are apart; a definition beside them tells their scope', async (t) => {
  const definition = (kind: string, scope: string) =>
    `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: ${kind}},` +
    ` spec: {group: example.com, scope: ${scope}, names: {kind: ${kind}}}}`
  const text = all(
    object('Widget', 'a', '', 'example.com/v1'),
    object('Fleet', 'a', 'x', 'example.com/v1'),
    object('Other', 'a', '', 'example.com/v1'),
    definition('Widget', 'Namespaced'),
    definition('Fleet', 'Cluster'),
  )
  const { manifests, unknown, problems } = want(text)
  t.strictSame(problems, [])
  t.equal(manifests.length, 2)
  t.strictSame(names(unknown), ['example.com/Widget/default/a', 'example.com/Fleet//a', 'example.com/Other//a'])
  const confined = want(object('Other', 'a', '', 'example.com/v1'), { namespaces: ['x'], defaultNamespace: 'x' })
  t.strictSame([names(confined.unknown), confined.problems], [['example.com/Other/x/a'], []])
})

t.test('outside namespaces or kinds: refused, and detached', async (t) => {
  const text = all(object('ConfigMap', 'a', 'shop'), object('Secret', 'b', 'bank'), object('Namespace', 'shop'))
  const problemsOf = (options: Partial<Reach>) => {
    const { manifests, detached, problems } = want(text, options)
    t.equal(detached.length, problems.length)
    t.equal(manifests.length, 3 - problems.length)
    return problems.map(({ line, text }) => `${line}: ${text}`)
  }
  t.strictSame(problemsOf({ namespaces: ['shop'] }), [
    '3: Secret bank/b: namespace bank is outside the namespaces of this source',
    '5: Namespace shop: cluster-wide objects are outside the namespaces of this source',
  ])
  t.strictSame(problemsOf({ resourceInclusions: [{ api_groups: [''], kinds: ['ConfigMap', 'Namespace'] }] }), [
    '3: Secret bank/b: the kind is not among resource_inclusions',
  ])
  t.strictSame(problemsOf({ resourceExclusions: [{ api_groups: ['*'], kinds: ['Secret'] }] }), [
    '3: Secret bank/b: the kind is among resource_exclusions',
  ])
  t.strictSame(problemsOf({ resourceInclusions: [{ api_groups: ['apps'], kinds: ['*'] }] }).length, 3)
  t.strictSame(problemsOf({ resourceInclusions: [{ api_groups: ['*'], kinds: ['*'] }] }), [])
  const key = { group: '', kind: 'Secret', namespace: 'bank', name: 'b' }
  t.equal(outsideReach(key, open), undefined)
  t.match(outsideReach(key, { ...open, namespaces: ['shop'] }), /outside/, 'of what an inventory holds, too')
})

t.test('what decides over others, or over agentk, is refused', async (t) => {
  const withMark = (where: string, mark: string) =>
    `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, ${where}: {${mark}: 41-7}}}`
  const reserved: readonly (readonly [string, string])[] = [
    [object('GitSync', 'shop', '', 'agent.gitlab.com/v1'), 'GitSync.agent.gitlab.com default/shop: a GitSync is made'],
    [object('ConfigMap', 'gitops-42-7-all'), 'gitops-42-7-all is the name of an inventory'],
    [object('Lease', 'agent-42-lock', '', 'coordination.k8s.io/v1'), 'agent-42-lock is a Lease of agentk'],
    [withMark('annotations', 'config.k8s.io/owning-inventory'), 'the object is of the inventory 41-7'],
    [withMark('annotations', 'agent.gitlab.com/digest'), 'agent.gitlab.com/digest is a mark that agentk makes'],
    [withMark('labels', 'agent.gitlab.com/gitops-source'), 'agent.gitlab.com/gitops-source is a mark'],
    [withMark('labels', 'agent.gitlab.com/gitops-agent'), 'agent.gitlab.com/gitops-agent is a mark'],
    [withMark('labels', 'agent.gitlab.com/inventory'), 'agent.gitlab.com/inventory is a mark that agentk makes'],
  ]
  for (const [text, why] of reserved) {
    const { manifests, problems, detached } = want(text)
    t.strictSame([manifests, detached], [[], []])
    t.ok(problems.length === 1 && problems[0]?.text.includes(why), why)
  }
  const allowed = all(object('ConfigMap', 'gitops-guide'), object('Lease', 'mine', '', 'coordination.k8s.io/v1'))
  t.strictSame(want(allowed).problems, [])
})

t.test('the same object twice', async (t) => {
  const { manifests, problems } = want(
    all(object('Deployment', 'a', '', 'apps/v1'), object('Deployment', 'a', 'default', 'apps/v1beta1')),
  )
  t.equal(manifests.length, 1)
  t.strictSame(problems, [
    { file: 'a.yaml', line: 3, text: 'Deployment.apps default/a: it is also defined at a.yaml:1' },
  ])
})

t.test('bad objects are named, the others are wanted', async (t) => {
  const { manifests, problems } = want(all('{a: 1}', object('ConfigMap', 'a'), '{kind: ConfigMap}'))
  t.equal(manifests.length, 1)
  t.strictSame(problems, [
    { file: 'a.yaml', line: 1, text: 'kind is missing' },
    { file: 'a.yaml', line: 5, text: 'apiVersion is missing' },
  ])
})

t.test('too many objects', async (t) => {
  const document = (at: number) => ({
    object: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `a${at}` } },
    file: 'a.yaml',
    line: 1,
  })
  const documents = Array.from({ length: maxObjects }, (_, at) => document(at))
  t.strictSame(desired(documents, scopes, open).problems, [])
  t.match(desired([...documents, document(-1)], scopes, open).problems, [{ text: /more than 10000 objects/ }])
})

t.test('a digest does not depend on the order of keys', async (t) => {
  t.equal(digestOf({ a: 1, b: [{ c: 1, d: 2 }] }), digestOf({ b: [{ d: 2, c: 1 }], a: 1 }))
  t.not(digestOf({ a: [1, 2] }), digestOf({ a: [2, 1] }))
  t.not(digestOf({ a: '1' }), digestOf({ a: 1 }))
  t.match(digestOf({}), /^[0-9a-f]{64}$/)
})

t.test('marks stand beside what the manifest has', async (t) => {
  const [manifest] = want(
    '{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {x: "1"}}, data: {z: "2"}}',
  ).manifests
  if (!manifest) throw new Error('no manifest')
  t.strictSame(marked(manifest, { inventory: '42-7', owner: '42-7' }), {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: 'a',
      namespace: 'default',
      labels: { x: '1', 'agent.gitlab.com/inventory': '42-7' },
      annotations: { 'config.k8s.io/owning-inventory': '42-7', 'agent.gitlab.com/digest': manifest.digest },
    },
    data: { z: '2' },
  })
  t.equal(manifest.digest, digestOf(manifest.object), 'of the object without marks')
})

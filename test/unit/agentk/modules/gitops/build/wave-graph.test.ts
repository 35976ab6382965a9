import t from 'tap'
import { maxDependsOn, waveGraph } from '../../../../../../src/agentk/modules/gitops/build/wave-graph.ts'
import type { Manifest } from '../../../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { WaveGraph } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'
import { Seeded } from '../../../../../support/seeded.ts'

interface More {
  readonly after?: string
  readonly wave?: string
  readonly spec?: object
}

function manifest(group: string, kind: string, namespace: string, name: string, more: More = {}): Manifest {
  const annotations = {
    ...(more.after !== undefined && { 'config.kubernetes.io/depends-on': more.after }),
    ...(more.wave !== undefined && { 'argocd.argoproj.io/sync-wave': more.wave }),
  }
  const object = { metadata: { name, annotations }, ...(more.spec && { spec: more.spec }) }
  return { key: { group, kind, namespace, name }, version: 'v1', object, file: `${name}.yaml`, line: 3, digest: '' }
}
const map = (name: string, more: More = {}) => manifest('', 'ConfigMap', 'shop', name, more)
const text = (name: string) => `/ConfigMap/shop/${name}`
const named = (...names: string[]) => names.map((name) => `/namespaces/shop/ConfigMap/${name}`).join(',')
const dependencies = (graph: WaveGraph, key: string) => [...new Set([...graph.named(key), ...graph.stepBefore(key)])]
const graphOf = (...manifests: Manifest[]) => {
  const { problems, graph } = waveGraph(manifests)
  t.strictSame(problems, [])
  return graph
}

t.test('what waits for nothing is in one wave', async (t) => {
  const graph = graphOf(map('b'), map('a'))
  t.strictSame(graph.order, [text('a'), text('b')])
  t.strictSame([dependencies(graph, text('a')), graph.dependents(text('a')), graph.wave(text('b'))], [[], [], 0])
  t.strictSame(graphOf().order, [])
})

t.test('depends-on', async (t) => {
  const role = manifest('rbac.authorization.k8s.io', 'ClusterRole', '', 'r')
  const graph = graphOf(
    map('a', { after: `${named('c', 'b')}, rbac.authorization.k8s.io/ClusterRole/r` }),
    map('b', { after: named('c') }),
    map('c'),
    role,
  )
  t.strictSame(graph.order, [text('c'), keyText(role.key), text('b'), text('a')])
  t.strictSame(dependencies(graph, text('a')), [text('c'), text('b'), keyText(role.key)])
  t.strictSame([...graph.dependents(text('c'))].sort(), [text('a'), text('b')])
  t.strictSame([graph.wave(text('c')), graph.wave(text('b')), graph.wave(text('a'))], [0, 1, 2])
})

t.test('sync waves: each waits for all of the one before', async (t) => {
  const graph = graphOf(map('late', { wave: '5' }), map('first', { wave: '-1' }), map('a'), map('b', { wave: '0' }))
  t.strictSame(graph.order, ['first', 'a', 'b', 'late'].map(text))
  t.strictSame(dependencies(graph, text('late')), ['a', 'b'].map(text))
  t.strictSame(graph.dependents(text('first')), ['a', 'b'].map(text))
  t.equal(graph.wave(text('late')), 2)
  const both = graphOf(map('x', { wave: '1', after: named('a', 'y') }), map('y', { wave: '1' }), map('a'))
  t.strictSame([...dependencies(both, text('x'))].sort(), ['a', 'y'].map(text), 'each once')
})

t.test('a namespace is there before its content, a definition before its instances', async (t) => {
  const home = manifest('', 'Namespace', '', 'shop')
  const definition = manifest('apiextensions.k8s.io', 'CustomResourceDefinition', '', 'widgets', {
    spec: { group: 'example.com', names: { kind: 'Widget' } },
  })
  const instance = manifest('example.com', 'Widget', 'shop', 'w')
  const elsewhere = manifest('other.com', 'Widget', 'bank', 'w')
  const graph = graphOf(instance, elsewhere, definition, home)
  t.strictSame(
    [...dependencies(graph, keyText(instance.key))].sort(),
    [home, definition].map(({ key }) => keyText(key)),
  )
  t.strictSame(dependencies(graph, keyText(elsewhere.key)), [])
  t.strictSame(graph.dependents(keyText(home.key)), [keyText(instance.key)])
})

t.test('cycles are named, with where one begins', async (t) => {
  const problemsOf = (...manifests: Manifest[]) => waveGraph(manifests).problems
  t.strictSame(problemsOf(map('free'), map('a', { after: named('b') }), map('b', { after: named('a') })), [
    { file: 'a.yaml', line: 3, text: 'cycle: ConfigMap shop/a waits for ConfigMap shop/b waits for ConfigMap shop/a' },
  ])
  t.match(problemsOf(map('a', { after: named('a') })), [{ text: 'cycle: ConfigMap shop/a waits for ConfigMap shop/a' }])
  t.match(problemsOf(map('a', { after: named('b') }), map('b', { wave: '1' })), [
    { text: /^cycle: .*a waits for .*b / },
  ])
  t.match(
    problemsOf(map('0', { after: named('a') }), map('a', { after: named('b') }), map('b', { after: named('a') })),
    [{ file: 'a.yaml', text: /^cycle: ConfigMap shop\/a/ }],
  )
  const ring = Array.from({ length: 50 }, (_, at) => map(`m${at}`, { after: named(`m${(at + 1) % 50}`) }))
  t.match(problemsOf(...ring), [{ text: /^cycle: (?:ConfigMap shop\/m\d+ waits for ){10}…$/ }])
  const late = manifest('', 'Namespace', '', 'shop', { wave: '1' })
  t.match(problemsOf(late, map('a')), [{ text: /^cycle/ }])
})

t.test('what is bad is named', async (t) => {
  const problemsOf = (more: More) => waveGraph([map('a', more)]).problems.map(({ text }) => text)
  const form = '<group>/namespaces/<namespace>/<kind>/<name> or <group>/<kind>/<name>'
  t.strictSame(problemsOf({ after: 'b' }), [`ConfigMap shop/a: config.kubernetes.io/depends-on: b is no ${form}`])
  t.match(problemsOf({ after: '' }), [/ is no <group>/])
  t.strictSame(problemsOf({ after: named('b') }), [
    'ConfigMap shop/a: config.kubernetes.io/depends-on: ConfigMap shop/b is no object of this source',
  ])
  t.match(problemsOf({ after: named(...Array(maxDependsOn + 1).fill('a')) }), [/more than 100 objects/])
  t.strictSame(problemsOf({ wave: 'x' }), ['ConfigMap shop/a: argocd.argoproj.io/sync-wave: x is no number'])
  const secret = (more: More) => waveGraph([manifest('', 'Secret', 'shop', 'a', more)]).problems.map(({ text }) => text)
  t.strictSame(secret({ wave: 'pw' }), ['Secret shop/a: argocd.argoproj.io/sync-wave: *** is no number'])
  t.match(secret({ after: 'pw' }), [/^Secret shop\/a: config\.kubernetes\.io\/depends-on: \*\*\* is no <group>/])
  t.match(secret({ after: named('pw') }), [/depends-on: \*\*\* is no object of this source$/])
  t.match(problemsOf({ wave: '9'.repeat(10) }), [/is no number/])
})

t.test('by seed: every order keeps all edges, every cycle is found', async (t) => {
  const random = Seeded.for(t)
  for (let round = 0; round < 300; round++) {
    const size = 1 + random.int(12)
    const edges = Array.from({ length: size }, () => random.list(3, () => random.int(size)))
    const waves = Array.from({ length: size }, () => (random.chance(0.3) ? random.int(4) - 1 : 0))
    const acyclic = random.chance(0.5)
    const targets = edges.map((of, from) =>
      of.filter((to) => !acyclic || (to < from && (waves[to] as number) <= (waves[from] as number))),
    )
    const manifests = targets.map((of, at) =>
      map(`m${at}`, { wave: String(waves[at]), ...(of.length > 0 && { after: named(...of.map((to) => `m${to}`)) }) }),
    )
    const mustPrecede = (to: number, from: number) =>
      targets[from]?.includes(to) || (waves[to] as number) < (waves[from] as number)
    /** Reachability by Floyd-Warshall: simple, and unlike the code under test. */
    const reach = manifests.map((_, from) => manifests.map((_, to) => mustPrecede(to, from)))
    for (const via of manifests.keys()) {
      for (const from of manifests.keys()) {
        for (const to of manifests.keys()) {
          if (reach[from]?.[via] && reach[via]?.[to]) (reach[from] as boolean[])[to] = true
        }
      }
    }
    const hasCycle = manifests.some((_, at) => reach[at]?.[at])
    const { problems, graph } = waveGraph(random.shuffled(manifests))
    t.equal(problems.length, hasCycle ? 1 : 0) || t.comment(JSON.stringify({ targets, waves }))
    if (hasCycle) continue
    const place = new Map(graph.order.map((key, at) => [key, at]))
    t.equal(place.size, size)
    const at = (index: number) => text(`m${index}`)
    for (const from of manifests.keys()) {
      for (const to of manifests.keys()) {
        if (!mustPrecede(to, from)) continue
        if ((place.get(at(to)) as number) >= (place.get(at(from)) as number)) t.fail('order')
        if (graph.wave(at(to)) >= graph.wave(at(from))) t.fail('wave')
      }
      for (const key of dependencies(graph, at(from)))
        if (!graph.dependents(key).includes(at(from))) t.fail('dependents')
      const expected = 1 + Math.max(-1, ...dependencies(graph, at(from)).map((key) => graph.wave(key)))
      if (graph.wave(at(from)) !== expected) t.fail('wave is not the longest chain')
    }
    t.strictSame(waveGraph(random.shuffled(manifests)).graph.order, graph.order)
  }
})

t.test('10,000 objects in two waves share their edges', async (t) => {
  const manifests = Array.from({ length: 10_000 }, (_, at) => map(`m${at}`, { wave: String(at % 2) }))
  const graph = graphOf(...manifests)
  t.equal(graph.stepBefore(text('m1')), graph.stepBefore(text('m9999')))
  t.equal(graph.dependents(text('m0')).length, 5000)
})

import t from 'tap'
import {
  chooseKinds,
  discover,
  isMetadataEnough,
  type ServedKind,
} from '../../../../../../src/agentk/modules/views/watch/served-kinds.ts'
import { ScriptedApi } from '../../../cluster/scripted-api.ts'
import { aggregated, resource } from './discovered.ts'

const { signal } = new AbortController()

t.test('all at once: kinds that can be listed and watched, each in its preferred version', async (t) => {
  const api = new ScriptedApi()
  const found = discover(api, signal)
  const core = await api.ask('/api')
  t.match(
    core.accept,
    /^application\/json;g=apidiscovery\.k8s\.io;v=v2;as=APIGroupDiscoveryList,.*v2beta1.*,application\/json$/,
  )
  const pods = resource('pods', 'Pod', { subresources: ['status', 'log'] })
  const nodes = resource('nodes', 'Node', { scope: 'Cluster', subresources: ['status'] })
  const bindings = resource('bindings', 'Binding', { verbs: ['create'] })
  const statuses = resource('componentstatuses', 'ComponentStatus', { verbs: ['get', 'list'] })
  await core.answer(200, aggregated({ '': [{ version: 'v1', resources: [pods, nodes, bindings, statuses] }] }))
  await (await api.ask('/apis')).answer(
    200,
    aggregated({
      autoscaling: [
        { version: 'v2', resources: [resource('scalers', 'Scaler')] },
        { version: 'v1', resources: [resource('scalers', 'Scaler'), resource('olds', 'Old')] },
      ],
      'example.com': [{ version: 'v1', freshness: 'Stale', resources: [] }],
    }),
  )
  const { kinds, stale } = await found
  t.strictSame(
    kinds.map(({ key, version, plural, isNamespaced, hasStatus }) => [key, version, plural, isNamespaced, hasStatus]),
    [
      ['Pod', 'v1', 'pods', true, true],
      ['Node', 'v1', 'nodes', false, true],
      ['autoscaling/Scaler', 'v2', 'scalers', true, false],
      ['autoscaling/Old', 'v1', 'olds', true, false],
    ],
  )
  t.equal(kinds[2]?.group, 'autoscaling')
  t.strictSame([...stale], ['example.com'])
})

t.test('an older server is asked group by group; one whose server does not answer is stale', async (t) => {
  const api = new ScriptedApi()
  const found = discover(api, signal)
  await (await api.ask('/api')).answer(200, { kind: 'APIVersions', versions: ['v1'] })
  await (await api.ask('/api/v1')).answer(200, {
    resources: [
      { name: 'pods', kind: 'Pod', namespaced: true, verbs: ['list', 'watch'] },
      { name: 'pods/status', kind: 'Pod', namespaced: true, verbs: ['get', 'list', 'watch'] },
      { name: 'nodes', kind: 'Node', namespaced: false, verbs: ['list', 'watch'] },
    ],
  })
  await (await api.ask('/apis')).answer(200, {
    kind: 'APIGroupList',
    groups: [
      {
        name: 'batch',
        versions: [{ version: 'v1beta1' }, { version: 'v1' }],
        preferredVersion: { version: 'v1' },
      },
      { name: 'metrics.k8s.io', versions: [{ version: 'v1' }], preferredVersion: { version: 'v1' } },
    ],
  })
  const jobs = { name: 'jobs', kind: 'Job', namespaced: true, verbs: ['list', 'watch'] }
  await (await api.ask('/apis/batch/v1')).answer(200, { resources: [jobs] })
  await (await api.ask('/apis/batch/v1beta1')).answer(200, { resources: [jobs] })
  await (await api.ask('/apis/metrics.k8s.io/v1')).answer(503)
  const { kinds, stale } = await found
  t.strictSame(
    kinds.map(({ key, version, isNamespaced, hasStatus }) => [key, version, isNamespaced, hasStatus]),
    [
      ['Pod', 'v1', true, true],
      ['Node', 'v1', false, false],
      ['batch/Job', 'v1', true, false],
    ],
  )
  t.strictSame([...stale], ['metrics.k8s.io'])
})

t.test('what is no discovery serves not nothing', async (t) => {
  const noKinds = { kind: 'APIGroupDiscoveryList', items: [{ versions: 7 }, null, { versions: [{}] }] }
  const ask = (core: unknown) => {
    const api = new ScriptedApi()
    const found = discover(api, signal)
    found.catch(() => undefined)
    return { found, answered: api.ask('/api').then((root) => root.answer(200, core)), api }
  }
  for (const body of [undefined, [], 'x', { kind: 'APIGroupDiscoveryList', items: {} }]) {
    const { found, answered } = ask(body)
    await answered
    await t.rejects(found, { code: 'UNREACHABLE', message: /no discovery/ })
  }
  const { found, answered, api } = ask(noKinds)
  await answered
  await (await api.ask('/apis')).answer(200, noKinds)
  t.strictSame((await found).kinds, [], 'odd parts of it are left out')
  const refused = new ScriptedApi()
  const denied = discover(refused, signal)
  denied.catch(() => undefined)
  await (await refused.ask('/api')).answer(401)
  await t.rejects(denied, { code: 'UNREACHABLE', message: 'the API server answered 401 for /api' })
})

function kind(key: string, hasStatus = true): ServedKind {
  const group = key.includes('/') ? key.slice(0, key.indexOf('/')) : ''
  return { key, group, version: 'v1', plural: key.toLowerCase(), isNamespaced: true, hasStatus }
}

const served = [
  'Pod',
  'Event',
  'Endpoints',
  'Secret',
  'example.com/Widget',
  'example.com/Gadget',
  'apps/Deployment',
  'coordination.k8s.io/Lease',
  'events.k8s.io/Event',
  'packages.operators.coreos.com/PackageManifest',
].map((key) => kind(key))

function chosen(follow: { kinds?: string[]; exclude?: string[] }, maxKinds = 300) {
  const isOwn = (group: string) => group !== 'packages.operators.coreos.com'
  const whole = { namespaces: [], kinds: [], exclude: [], ...follow }
  const { followed, tooMany } = chooseKinds(served, whole, { isOwn, maxKinds })
  return { followed: followed.map(({ key }) => key), tooMany: tooMany.map(({ key }) => key) }
}

t.test('which kinds are followed', (t) => {
  const usual = ['Pod', 'apps/Deployment', 'example.com/Widget', 'example.com/Gadget']
  t.strictSame(chosen({}).followed, usual, 'Kubernetes own first')
  t.strictSame(chosen({ kinds: ['*/*'] }).followed, usual, 'a pattern names none')
  t.strictSame(chosen({ kinds: ['*/*', 'Secret', 'Event'] }).followed, ['Event', 'Secret', ...usual])
  t.strictSame(chosen({ kinds: ['example.com/*'] }).followed, ['example.com/Widget', 'example.com/Gadget'])
  t.strictSame(chosen({ kinds: ['*'] }).followed, ['Pod'], 'of the core group')
  t.strictSame(chosen({ exclude: ['example.com/W*', 'Pod'] }).followed, ['apps/Deployment', 'example.com/Gadget'])
  t.strictSame(chosen({ kinds: ['Secret'], exclude: ['Secret'] }).followed, [])
  t.strictSame(chosen({ kinds: ['packages.operators.coreos.com/PackageManifest'] }).followed, [], 'another serves it')
  t.strictSame(chosen({ kinds: ['*/*', 'example.com/Gadget'] }, 2), {
    followed: ['example.com/Gadget', 'Pod'],
    tooMany: ['apps/Deployment', 'example.com/Widget'],
  })
  t.end()
})

t.test('of which nothing but the metadata is asked for', (t) => {
  const wants = (key: string) => key === 'apps/ControllerRevision'
  t.equal(isMetadataEnough(kind('ConfigMap', false), wants), true)
  t.equal(isMetadataEnough(kind('Pod'), wants), false)
  t.equal(isMetadataEnough(kind('apps/ControllerRevision', false), wants), false, 'a rule reads it')
  t.equal(isMetadataEnough(kind('example.com/Widget', false), wants), false, 'it may have a status all the same')
  t.equal(
    isMetadataEnough(kind('Secret'), () => true),
    true,
    'whatever rules say',
  )
  t.end()
})

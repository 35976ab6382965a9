import t, { type Test } from 'tap'
import { missingAssets } from '../../../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import type { ApiClient } from '../../../../src/agentk/cluster/api-client.ts'
import { impersonationHeaders } from '../../../../src/agentk/cluster/impersonation-headers.ts'
import { askEvents } from '../../../../src/agentk/modules/views/access/asked-events.ts'
import { Warnings } from '../../../../src/agentk/modules/views/watch/events.ts'
import { Kinds, type KindsOptions } from '../../../../src/agentk/modules/views/watch/kinds.ts'
import { textAt } from '../../../../src/kubernetes/object.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { adminClient, apiClient } from '../../../support/api-client.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { CuttingFront } from '../../../support/cutting-front.ts'
import { eventually } from '../../../support/eventually.ts'
import { KeptSink } from '../../../support/kept-sink.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'

/** Kinds of a real API server. The cache equals the lists, even when the server or agentk's rights change. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const rbac = '/apis/rbac.authorization.k8s.io/v1'
const rules = [{ apiGroups: ['', 'apiregistration.k8s.io'], resources: ['*'], verbs: ['list', 'watch'] }]
const podRules = [{ apiGroups: [''], resources: ['configmaps'], verbs: ['list', 'watch'] }]

t.test('kinds of an API server', { skip, timeout: 220_000 }, async (t) => {
  const controlPlane = new ControlPlane({ assets, parts: 'api', flags: ['--etcd-compaction-interval=1s'] })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin } = controlPlane
  const createMap = (namespace: string, name: string, data: object = {}) =>
    admin.create(`/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name }, data })
  const remove = (path: string) => admin.request(path, { method: 'DELETE' })
  for (const name of ['shop', 'test']) await admin.create('/api/v1/namespaces', { metadata: { name } })

  /** Returns a client with this token; undefined: an administrator. */
  const clientOf = (t: Test, token?: string, server = controlPlane.server) =>
    token === undefined
      ? adminClient(t, controlPlane, server)
      : apiClient(t, { server, ca: { file: controlPlane.caFile }, token: { text: token } })

  const follow = async (t: Test, options: Partial<KindsOptions> = {}, token?: string, server?: string) => {
    const client = clientOf(t, token, server)
    const sink = new KeptSink()
    const events = new Warnings()
    const { log, lines } = capturedLog()
    const paths: string[] = []
    const api = {
      json: (...args: Parameters<ApiClient['json']>) => {
        paths.push(args[1])
        return client.json(...args)
      },
      send: (...args: Parameters<ApiClient['send']>) => {
        paths.push(args[0].path)
        return client.send(...args)
      },
    }
    const times = { firstRetryMs: 50, deniedMs: 200, ...options.times }
    const components = { api, sink, events, log, clock: systemClock, random: Math.random }
    const kinds = new Kinds(components, { follow: {}, ...options, times })
    const stopping = new AbortController()
    const running = kinds.run(stopping.signal)
    const stop = async () => {
      stopping.abort()
      await running
    }
    t.teardown(stop)
    return { api, client, sink, events, lines, paths, stop }
  }

  /** Waits until the cache equals the list of the API server. */
  const equalsList = (sink: KeptSink, kind: string, path: string) =>
    eventually(async () => {
      const { items } = await admin.get(path)
      const listed = items.map(({ metadata }: { metadata: { namespace?: string; name: string } }) =>
        metadata.namespace ? `${metadata.namespace}/${metadata.name}` : metadata.name,
      )
      const kept = sink.names(kind)
      if (listed.sort().join() !== kept.join()) throw new Error(`${kind}: ${kept.join()}, listed ${listed.join()}`)
      return kept
    })
  const areLive = (sink: KeptSink) =>
    eventually(() => {
      const others = [...sink.states].filter(([, { is }]) => is !== 'live')
      if (others.length > 0 || sink.states.size === 0) throw new Error(`not live: ${JSON.stringify(others)}`)
    })

  await t.test('by watches that list: what is there, what comes, what goes', async (t) => {
    await createMap('shop', 'first', { secret: 'x' })
    const { sink, paths, lines } = await follow(t, { follow: { kinds: ['*/*', 'Secret'] } })
    await areLive(sink)
    t.notOk(
      paths.some((path) => path.includes('limit=')),
      'not one page',
    )
    t.ok((await equalsList(sink, 'ConfigMap', '/api/v1/configmaps')).includes('shop/first'))
    await equalsList(sink, 'Namespace', '/api/v1/namespaces')
    await equalsList(sink, 'rbac.authorization.k8s.io/ClusterRole', `${rbac}/clusterroles`)
    await createMap('test', 'second')
    await admin.create('/api/v1/namespaces/shop/secrets', { metadata: { name: 's' }, stringData: { password: 'p' } })
    await remove('/api/v1/namespaces/shop/configmaps/first')
    t.ok((await equalsList(sink, 'ConfigMap', '/api/v1/configmaps')).includes('test/second'))
    await equalsList(sink, 'Secret', '/api/v1/secrets')
    const secret = [...sink.objects.values()].find(({ kind }) => kind.key === 'Secret')?.object
    t.strictSame(Object.keys(secret ?? {}).sort(), ['apiVersion', 'kind', 'metadata'], 'metadata alone')
    const namespace = [...sink.objects.values()].find(({ kind }) => kind.key === 'Namespace')?.object
    t.equal(textAt(namespace, 'status.phase'), 'Active', 'and the whole of what has a status')
    for (const kind of ['Event', 'Endpoints', 'coordination.k8s.io/Lease']) t.notOk(sink.states.has(kind), kind)
    t.strictSame(lines, [])
  })

  await t.test('a custom kind comes and goes', async (t) => {
    const { sink } = await follow(t)
    await areLive(sink)
    let began = performance.now()
    await admin.create(crds, widgetDefinition)
    await eventually(() => sink.is('example.com/Widget') === 'live')
    t.comment(`followed after ${Math.round(performance.now() - began)} ms`)
    await admin.create('/apis/example.com/v1/namespaces/shop/widgets', {
      apiVersion: 'example.com/v1',
      kind: 'Widget',
      metadata: { name: 'w' },
    })
    await equalsList(sink, 'example.com/Widget', '/apis/example.com/v1/widgets')
    began = performance.now()
    await remove(`${crds}/widgets.example.com`)
    await eventually(() => !sink.states.has('example.com/Widget'))
    t.comment(`gone after ${Math.round(performance.now() - began)} ms`)
    t.strictSame(sink.names('example.com/Widget'), [])
  })

  await t.test('403 in the whole cluster, then namespace by namespace, then all of it', async (t) => {
    await createMap('shop', 'mine')
    await createMap('test', 'other')
    const account = await admin.create('/api/v1/namespaces/shop/serviceaccounts', { metadata: { name: 'views' } })
    const subjects = [{ kind: 'ServiceAccount', namespace: 'shop', name: 'views' }]
    const bind = async (path: string, kind: string, name: string) => {
      const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind, name }
      await admin.create(path, { metadata: { name }, roleRef, subjects })
    }
    await admin.create(`${rbac}/clusterroles`, { metadata: { name: 'views' }, rules })
    await admin.create(`${rbac}/namespaces/shop/roles`, { metadata: { name: 'views' }, rules: podRules })
    await bind(`${rbac}/namespaces/shop/rolebindings`, 'Role', 'views')
    const token = controlPlane.signToken({
      account: { namespace: 'shop', name: 'views', uid: account.metadata.uid },
      lifeMs: 600_000,
    })
    const kinds = { kinds: ['ConfigMap', 'Node'], namespaces: ['shop', 'test'] }
    const { sink } = await follow(t, { follow: kinds }, token)
    await eventually(() => sink.is('ConfigMap') === 'live' && sink.is('Node') === 'refused')
    t.strictSame(sink.states.get('ConfigMap')?.refusedNamespaces, ['test'])
    t.ok(sink.names('ConfigMap').includes('shop/mine'))
    t.ok(sink.names('ConfigMap').every((name) => name.startsWith('shop/')))
    await bind(`${rbac}/clusterrolebindings`, 'ClusterRole', 'views')
    await eventually(() => sink.is('Node') === 'live')
    t.ok((await equalsList(sink, 'ConfigMap', '/api/v1/configmaps')).includes('test/other'))
    t.strictSame(sink.states.get('ConfigMap')?.refusedNamespaces, [])
  })

  await t.test('rights that are taken away: its rows go when the watch ends', async (t) => {
    const account = await admin.create('/api/v1/namespaces/shop/serviceaccounts', { metadata: { name: 'brief' } })
    const subjects = [{ kind: 'ServiceAccount', namespace: 'shop', name: 'brief' }]
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'views' }
    await admin.create(`${rbac}/clusterrolebindings`, { metadata: { name: 'brief' }, roleRef, subjects })
    const token = controlPlane.signToken({
      account: { namespace: 'shop', name: 'brief', uid: account.metadata.uid },
      lifeMs: 600_000,
    })
    const times = { watchMs: 1000 }
    const { sink } = await follow(t, { follow: { kinds: ['ConfigMap'] }, times }, token)
    await equalsList(sink, 'ConfigMap', '/api/v1/configmaps')
    await remove(`${rbac}/clusterrolebindings/brief`)
    await eventually(() => sink.is('ConfigMap') === 'refused' && sink.names('ConfigMap').length === 0)
    t.equal(sink.states.get('ConfigMap')?.why, 'agentk may not list and watch it')
    await admin.create(`${rbac}/clusterrolebindings`, { metadata: { name: 'brief' }, roleRef, subjects })
    await eventually(() => sink.is('ConfigMap') === 'live')
    await equalsList(sink, 'ConfigMap', '/api/v1/configmaps')
  })

  await t.test('an object over 4 MiB is left out by name', async (t) => {
    const rules = { wantsStatus: (kind: string) => kind === 'ConfigMap', ready: () => Promise.resolve() }
    await createMap('test', 'huge', { text: '<'.repeat(750_000) }) // each character takes six bytes in JSON
    const { sink } = await follow(t, { follow: { kinds: ['ConfigMap'] }, rules })
    const place = (name: string) => ({ namespace: 'test', name })
    await eventually(() => sink.is('ConfigMap') === 'live')
    t.strictSame(sink.states.get('ConfigMap')?.leftOut, [place('huge')])
    await createMap('test', 'huge2', { text: '<'.repeat(750_000) })
    await eventually(() => sink.states.get('ConfigMap')?.leftOut.length === 2)
    t.strictSame(sink.states.get('ConfigMap')?.leftOut, [place('huge'), place('huge2')])
    t.notOk(sink.names('ConfigMap').some((name) => name.includes('huge')))
    await remove('/api/v1/namespaces/test/configmaps/huge')
    await remove('/api/v1/namespaces/test/configmaps/huge2')
    await eventually(() => sink.states.get('ConfigMap')?.leftOut.length === 0)
    await equalsList(sink, 'ConfigMap', '/api/v1/configmaps')
  })

  await t.test('Warnings are followed, others are asked as the caller', async (t) => {
    const { events, client } = await follow(t, { follow: { kinds: ['Pod'] } })
    const createEvent = (name: string, type: string) =>
      admin.create('/api/v1/namespaces/shop/events', {
        metadata: { name },
        involvedObject: { kind: 'Pod', namespace: 'shop', name: 'web', uid: 'u-web' },
        type,
        reason: 'Why',
        message: name,
        lastTimestamp: '2026-06-01T00:00:00Z',
      })
    await createEvent('normal', 'Normal')
    await createEvent('warning', 'Warning')
    await eventually(() => events.size === 1)
    t.match(
      [...events.about({ ns: 'shop', about: ['Pod', 'web', 'u-web'] })],
      [{ ns: 'shop', about: ['Pod', 'web', 'u-web'], text: 'warning', count: 1 }],
    )
    const as = (username: string, groups: readonly string[]) =>
      impersonationHeaders(undefined, { username, groups, uid: '', extra: [] }, [])
    const ask = { namespace: 'shop', about: 'u-web', limit: 50 }
    const { signal } = new AbortController()
    const found = await askEvents(client, { ...ask, headers: as('root', ['system:masters']) }, signal)
    t.strictSame(found?.rows.map(({ text }) => text).sort(), ['normal', 'warning'])
    t.equal(await askEvents(client, { ...ask, headers: as('ada', []) }, signal), undefined)
  })

  await t.test('connections that are cut again and again: nothing is missed', async (t) => {
    const front = await CuttingFront.start(t, { targets: [Number(new URL(controlPlane.server).port)], ageMs: 2000 })
    const times = { maxRetryMs: 1000 }
    const { sink } = await follow(t, { times }, undefined, `https://127.0.0.1:${front.port}`)
    await areLive(sink)
    const lists = () => sink.told.filter((each) => each === 'listing ConfigMap').length
    const before = lists()
    for (let i = 0; front.cuts.length < 150; i++) {
      await createMap('test', `cut-${i}`)
      if (i >= 20) await remove(`/api/v1/namespaces/test/configmaps/cut-${i - 20}`)
    }
    await equalsList(sink, 'ConfigMap', '/api/v1/configmaps')
    t.equal(lists(), before, 'watches have gone on, without lists')
  })

  /** flags of the server from here on, because a restart takes long */
  const byPages = ['--feature-gates=WatchList=false', '--etcd-compaction-interval=1s']

  await t.test('a restart of the API server: 410 to watches that go on', async (t) => {
    const { sink, paths } = await follow(t)
    await areLive(sink)
    const listings = () => sink.told.filter((each) => each === 'listing ConfigMap').length
    t.equal(listings(), 1)
    await controlPlane.restartApiServer({ abruptly: true, flags: byPages })
    await createMap('shop', 'after')
    await remove('/api/v1/namespaces/shop/configmaps/mine')
    t.ok((await equalsList(sink, 'ConfigMap', '/api/v1/configmaps')).includes('shop/after'))
    await areLive(sink)
    t.ok(
      paths.some((path) => path.startsWith('/api/v1/configmaps?') && path.includes('resourceVersion=')),
      'it went on',
    )
    t.notOk(sink.told.includes('dropped ConfigMap'))
  })

  await t.test(
    'by pages, where lists by watches are refused; a list that compaction interrupts begins anew',
    async (t) => {
      for (let i = 0; i < 12; i++) {
        await Promise.all(Array.from({ length: 50 }, (_, n) => createMap('shop', `map-${i}-${n}`)))
      }
      const client = clientOf(t)
      const sink = new KeptSink()
      const pages: string[] = []
      let isExpired = false
      const json: ApiClient['json'] = async (...args) => {
        const [, path] = args
        if (path.startsWith('/api/v1/configmaps')) pages.push(path)
        if (path.includes('continue=') && !isExpired) {
          isExpired = true
          await eventually(async () => (await admin.request(path)).status === 410, { timeoutMs: 60_000 })
        }
        return client.json(...args)
      }
      const api = { json, send: (...args: Parameters<ApiClient['send']>) => client.send(...args) }
      const { log } = capturedLog()
      const components = { api, sink, events: new Warnings(), log, clock: systemClock, random: Math.random }
      const kinds = new Kinds(components, {
        follow: { kinds: ['ConfigMap'] },
        times: { firstRetryMs: 50, graceMs: 60_000 },
      })
      const stopping = new AbortController()
      const running = kinds.run(stopping.signal)
      t.teardown(() => {
        stopping.abort()
        return running
      })
      await equalsList(sink, 'ConfigMap', '/api/v1/configmaps')
      await areLive(sink)
      t.strictSame(
        pages.map((path) => path.includes('continue=')),
        [false, true, false, true],
      )
      await createMap('shop', 'last')
      await equalsList(sink, 'ConfigMap', '/api/v1/configmaps')
    },
  )
})

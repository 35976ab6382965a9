import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { loadCluster } from '../../src/agentk/cluster/load-cluster.ts'
import { mayImpersonateNobody } from '../../src/agentk/cluster/may-impersonate.ts'
import { ruleReader } from '../../src/agentk/health/custom/rule-sources.ts'
import { ViewsThread } from '../../src/agentk/modules/views/thread/views-thread.ts'
import type { Reply } from '../../src/call/call.ts'
import type { Directory } from '../../src/kas/directory/directory.ts'
import { graphEndpoint } from '../../src/kas/modules/views/graph/graph-endpoint.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { KasError } from '../../src/lib/errors.ts'
import { GraphClient } from '../contract/kubernetes-server/graph-client.ts'
import { createKubernetesServer } from '../contract/kubernetes-server/start-server.ts'
import { capturedLog } from '../support/captured-log.ts'
import { eventually } from '../support/eventually.ts'
import { startFeeds } from '../support/feeds.ts'
import { defaultRequest } from '../support/graph/strict-graph.ts'

/** GitLab's graph of a real API server: the thread of views, kas' own endpoint, and a client as strict as glab. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const rbac = '/apis/rbac.authorization.k8s.io/v1'
const apiGroup = 'rbac.authorization.k8s.io'

async function start(t: Test) {
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { settings } = await loadCluster({ kubeconfig: controlPlane.kubeconfig }, {})
  const { log } = capturedLog()
  const clock = systemClock
  const none = () => undefined
  const thread = new ViewsThread({ onFacts: none, onRules: none, onEnded: none, log, clock, random: Math.random })
  const stopping = new AbortController()
  const rules = (await ruleReader()).read([])
  const cluster = {
    cluster: settings,
    watched: settings,
    logLevel: 'error' as const,
    heapMb: 256,
    mayImpersonate: mayImpersonateNobody,
  }
  const ran = thread.run({ ...cluster, configuration: {}, rules }, stopping.signal)
  t.teardown(() => {
    stopping.abort()
    return ran
  })
  const { feeds } = startFeeds(t, {
    forward: async (call) => thread.follow(call) as Reply, // all its messages are whole
    serves: () => true,
    random: Math.random,
  })
  const directory: Pick<Directory, 'grantJob' | 'grantUser'> = {
    grantJob: () => Promise.reject(new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })),
    grantUser: async (_agent, { key }) => {
      const as = key === 'root' ? ({ as: 'agent' } as const) : ({ as: 'user', projects: [], groups: [] } as const)
      return { accessAs: as, configProjectId: 1n, user: { id: 5n, username: key } }
    },
  }
  const noCalls = () => Promise.reject(new Error('no call is made'))
  const endpoints = [graphEndpoint({ feeds, clock })]
  const { server } = createKubernetesServer(noCalls, {}, undefined, { directory, endpoints })
  t.teardown(() => server.stop(AbortSignal.abort()))
  await server.start()
  const { port } = server.address as AddressInfo
  const open = async (user: string, request: object = defaultRequest) => {
    const headers = { Authorization: `Bearer pat:42:${user}` }
    return (await GraphClient.open(t, port, { headers })).ask(request)
  }
  return { admin: controlPlane.admin, open }
}

t.test('a graph of a cluster', { skip, timeout: 120_000 }, async (t) => {
  const { admin, open } = await start(t)
  const remove = (path: string) => admin.request(path, { method: 'DELETE' })
  for (const name of ['shop', 'bank']) {
    await admin.create('/api/v1/namespaces', { metadata: { name } })
    await admin
      .create(`/api/v1/namespaces/${name}/serviceaccounts`, { metadata: { name: 'default' } })
      .catch(() => undefined)
  }
  const set = await admin.create('/apis/apps/v1/namespaces/shop/replicasets', {
    metadata: { name: 'web' },
    spec: {
      replicas: 0,
      selector: { matchLabels: { app: 'web' } },
      template: { metadata: { labels: { app: 'web' } }, spec },
    },
  })
  const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: set.metadata.uid, controller: true }
  const pod = (name: string) => ({ metadata: { name, ownerReferences: [owner] }, spec: { ...spec, volumes } })
  const createPod = (name: string) => admin.create('/api/v1/namespaces/shop/pods', pod(name))
  await admin.create('/api/v1/namespaces/shop/configmaps', { metadata: { name: 'settings' } })
  await createPod('first')
  const roles = `${rbac}/namespaces/shop`
  const podRules = [{ apiGroups: [''], resources: ['pods'], verbs: ['list'] }]
  await admin.create(`${roles}/roles`, { metadata: { name: 'lists-pods' }, rules: podRules })
  await admin.create(`${roles}/rolebindings`, {
    metadata: { name: 'ada' },
    roleRef: { apiGroup, kind: 'Role', name: 'lists-pods' },
    subjects: [{ kind: 'User', apiGroup, name: 'gitlab:user:ada' }],
  })
  const drawn = (client: GraphClient, ...arcs: string[]) =>
    eventually(
      () => {
        const missing = arcs.filter((arc) => !client.graph.drawn().includes(arc))
        return (
          missing.length === 0 ||
          Promise.reject(new Error(`${client.graph.drawn()} ${client.failure} ${client.graph.error?.reason}`))
        )
      },
      { timeoutMs: 30_000 },
    )

  await t.test('Pods come and go, and the client never ends', async (t) => {
    const client = await open('root')
    const all = [
      'pods/first -or> replicasets/web',
      'pods/first -r> configmaps/settings',
      'pods/first -r> secrets/key',
      'rolebindings/ada -r> roles/lists-pods',
    ]
    await drawn(client, ...all)
    const drawnActions = client.graph.actions
    const names = Array.from({ length: 100 }, (_, i) => `p${i}`)
    let most = 0
    const path = '/api/v1/namespaces/shop/pods'
    const worker = async () => {
      for (let name = names.pop(); name !== undefined; name = names.pop()) {
        await createPod(name)
        await admin.request(`${path}/${name}?gracePeriodSeconds=0`, { method: 'DELETE' })
        most = Math.max(most, client.graph.names('pods').length)
      }
    }
    await Promise.all(Array.from({ length: 10 }, worker))
    // the event of this pod comes after all events of the others
    await createPod('last')
    await eventually(
      () => client.graph.names('pods').includes('last') || Promise.reject(new Error('the last is not seen')),
      {
        timeoutMs: 30_000,
      },
    )
    await admin.request(`${path}/last?gracePeriodSeconds=0`, { method: 'DELETE' })
    await eventually(() => client.graph.names('pods').length === 1 || Promise.reject(new Error('some are left')), {
      timeoutMs: 30_000,
    })
    t.equal(client.failure, undefined)
    t.equal(client.socket.readyState, client.socket.OPEN)
    await drawn(client, ...all)
    const { actions, answers } = client.graph
    t.ok(actions > drawnActions, `${actions} actions in ${answers} answers, up to ${most} Pods`)
    t.ok(client.graph.warnings.includes('unfollowed: Secret is not followed by the agent'))
  })

  await t.test('two users: what one may not list makes no difference to a byte', async (t) => {
    const [ada, root] = [await open('ada'), await open('root')]
    await drawn(root, 'pods/first -or> replicasets/web')
    await drawn(ada, 'pods/first -or> replicasets/web')
    await eventually(() => ada.graph.warnings.length > 0 || Promise.reject(new Error('his rights are not known yet')))
    const before = [...ada.texts]
    await remove('/apis/apps/v1/namespaces/shop/replicasets/web?propagationPolicy=Background')
    await remove('/api/v1/namespaces/shop/configmaps/settings')
    await admin.create('/api/v1/namespaces/shop/secrets', { metadata: { name: 'key' } })
    await admin.create('/api/v1/namespaces/bank/pods', { metadata: { name: 'vault' }, spec })
    await eventually(() => root.graph.names('pods').includes('vault') || Promise.reject(new Error('not yet')))
    await drawn(root, 'pods/first -or> replicasets/web !', 'pods/first -r> configmaps/settings !')
    t.strictSame(ada.texts, before, 'none comes because of it')
    const again = await open('ada')
    await eventually(() => again.texts.length === before.length || Promise.reject(new Error(`${again.texts}`)))
    t.strictSame(again.texts, before)
    t.notMatch(before.join(), /bank|vault/)
    t.match(before.join(), /"t":"forbidden","m":"configmaps cannot be listed"/)
    t.equal(ada.failure ?? root.failure ?? again.failure, undefined)
  })

  await t.test('what cannot be answered is refused in the words of the protocol', async (t) => {
    const queries = [{ include: { object: { object_selector_expression: 'obj.spec.hostNetwork' } } }]
    const client = await open('root', { queries })
    const reason = 'obj, annotations and json_path are not kept here'
    t.strictSame(await client.closed, { code: 1008, reason })
    t.strictSame(client.graph.error, { code: 1008, code_string: 'StatusPolicyViolation', reason })
  })
})

const spec = { containers: [{ name: 'main', image: 'none' }], automountServiceAccountToken: false }
const volumes = [
  { name: 'settings', configMap: { name: 'settings' } },
  { name: 'key', secret: { secretName: 'key' } },
]

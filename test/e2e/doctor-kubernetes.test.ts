import t, { type Test } from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { checkKubernetes } from '../../src/kas/cli/doctor/kubernetes.ts'
import { parseKasConfig } from '../../src/kas/config/kas-config.ts'
import type { Finding } from '../../src/lib/findings.ts'
import { ClusterClient } from '../../src/membership/discovery/kubernetes/cluster-client.ts'

/** What `kas doctor` asks a real API server for, as an account with the rights that each case gives. */

t.setTimeout(120_000)

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const env = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: '443', POD_NAME: 'kas-0' }
const rbac = '/apis/rbac.authorization.k8s.io/v1/namespaces/kas'

const configuration = (service: string) =>
  parseKasConfig(
    'kas.yaml',
    `
directory: { file: d.yaml }
private_api: { listen: { address: ":8155" } }
agent: { kubernetes_api: { listen: { listen_grace_period: 5s, shutdown_grace_period: 100s } } }
cluster: { discovery: { kubernetes: { service: ${service}, namespace: kas } } }
`,
  ).config

const slices = { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] }
const endpoints = {
  apiGroups: [''],
  resources: ['endpoints'],
  resourceNames: ['kas-private'],
  verbs: ['list', 'watch'],
}
const pods = { apiGroups: [''], resources: ['pods'], verbs: ['get'] }

t.test('an API server', { skip }, async (t) => {
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin } = controlPlane
  await admin.create('/api/v1/namespaces', { metadata: { name: 'kas' } })
  await admin.create('/api/v1/namespaces/kas/serviceaccounts', { metadata: { name: 'default' } }) // as controllers do
  const slice = (service: string, port: number, name = 'gossip') =>
    admin.create('/apis/discovery.k8s.io/v1/namespaces/kas/endpointslices', {
      metadata: { name: service, labels: { 'kubernetes.io/service-name': service } },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.0.0.11'] }, { addresses: ['10.0.0.12'] }],
      ports: [{ name, port }],
    })
  await Promise.all([slice('kas-private', 8156), slice('kas-other-port', 9000), slice('kas-unnamed', 8156, 'other')])
  const ports = [{ name: 'gossip', port: 8156 }]
  const subsets = [{ addresses: [{ ip: '10.0.0.11' }], ports }]
  await admin.create('/api/v1/namespaces/kas/endpoints', { metadata: { name: 'kas-private' }, subsets })
  await pod('kas-0', 115)
  await pod('kas-1', 30)

  function pod(name: string, terminationGracePeriodSeconds: number) {
    const spec = {
      terminationGracePeriodSeconds,
      automountServiceAccountToken: false,
      containers: [{ name: 'kas', image: 'kas' }],
    }
    return admin.create('/api/v1/namespaces/kas/pods', { metadata: { name }, spec })
  }

  let accounts = 0
  /** Of an account with those rights. */
  async function ask(
    rules: readonly object[],
    { service = 'kas-private', podName = 'kas-0' } = {},
  ): Promise<Finding[]> {
    const name = `account-${accounts++}`
    const account = await admin.create('/api/v1/namespaces/kas/serviceaccounts', { metadata: { name } })
    await admin.create(`${rbac}/roles`, { metadata: { name }, rules })
    await admin.create(`${rbac}/rolebindings`, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', namespace: 'kas', name }],
    })
    const { uid } = account.metadata
    const token = controlPlane.signToken({ account: { namespace: 'kas', name, uid }, lifeMs: 3_600_000 })
    const open = async () => {
      const client = await ClusterClient.open({ kubeconfig: controlPlane.kubeconfig, requestTimeoutMs: 10_000 })
      const [user] = client.config.users
      const cluster = client.config.getCurrentCluster()
      if (!user || !cluster) throw new Error('the kubeconfig names no user')
      client.config.loadFromOptions({
        clusters: [cluster],
        users: [{ name: 'account', token }],
        contexts: [{ name: 'kas', cluster: cluster.name, user: 'account', namespace: 'kas' }],
        currentContext: 'kas',
      })
      return client
    }
    return checkKubernetes(configuration(service), { env: { ...env, POD_NAME: podName }, open })
  }
  const of = (findings: readonly Finding[], check: string) => findings.filter((one) => one.check === check)

  await t.test('with the rights of the Role all is well, and the pod is not read', async (t) => {
    const findings = await ask([slices, endpoints])
    t.match(of(findings, 'kubernetes'), [
      { state: 'ok', subject: 'list, watch endpointslices.discovery.k8s.io', text: 'allowed in kas' },
      { state: 'ok', subject: 'Service kas-private', text: 'addresses of it: 2; its port gossip is 8156' },
    ])
    t.match(of(findings, 'clocks'), [{ state: 'ok', subject: 'API server' }])
    t.match(of(findings, 'graces'), [{ state: 'skipped', text: /kas may not read its own pod; kas takes up to 115 s/ }])
  })

  await t.test('Endpoints alone are a note', async (t) => {
    const findings = await ask([endpoints])
    t.match(of(findings, 'kubernetes'), [
      { state: 'note', text: /Endpoints are, and are taken/, advice: /Role/ },
      { state: 'ok', text: 'addresses of it: 1; its port gossip is 8156' },
    ])
  })

  await t.test('a cluster that grants nothing', async (t) => {
    const findings = await ask([])
    t.match(of(findings, 'kubernetes'), [
      { state: 'failed', text: /no other replica is found/, advice: /apply the Role/ },
      { state: 'skipped', text: 'its endpoints cannot be listed' },
    ])
  })

  await testServices(t, ask)

  await t.test('a grace beyond that of the pod', async (t) => {
    t.match(of(await ask([slices, pods]), 'graces'), [{ state: 'ok', text: /^115 s; kas takes up to 115 s/ }])
    const short = of(await ask([slices, pods], { podName: 'kas-1' }), 'graces')
    t.match(short, [{ state: 'failed', text: /^30 s; kas takes up to 115 s/, advice: /make it longer/ }])
    const absent = of(await ask([slices, pods], { podName: 'kas-9' }), 'graces')
    t.match(absent, [{ state: 'skipped', text: /its pod: HTTP 404/ }])
  })

  await t.test('an API server that takes no account of ours', async (t) => {
    const open = async () => {
      const client = await ClusterClient.open({ kubeconfig: controlPlane.kubeconfig, requestTimeoutMs: 10_000 })
      const cluster = client.config.getCurrentCluster()
      if (!cluster) throw new Error('the kubeconfig names no cluster')
      client.config.loadFromClusterAndUser(cluster, { name: 'nobody', token: 'of-nobody' })
      return client
    }
    const findings = await checkKubernetes(configuration('kas-private'), { env, open })
    t.match(of(findings, 'kubernetes'), [
      { state: 'failed', text: /^it cannot be asked for: /, advice: /does the pod reach the API server/ },
      { state: 'skipped', text: 'its endpoints cannot be listed' },
    ])
    t.match(of(findings, 'graces'), [{ state: 'skipped' }])
    t.match(of(findings, 'clocks'), [{ state: 'skipped' }])
  })
})

type Ask = (rules: readonly object[], options: { readonly service: string }) => Promise<Finding[]>

async function testServices(t: Test, ask: Ask): Promise<void> {
  const services = {
    'kas-other-port': { state: 'failed', text: /gossip is 9000, and cluster\.listen\.address has 8156/ },
    'kas-unnamed': { state: 'note', text: /no port is named gossip: 8156 is taken/ },
    'kas-absent': { state: 'failed', text: 'it has no address in kas', advice: /are its name and namespace right/ },
  }
  for (const [service, expected] of Object.entries(services)) {
    await t.test(`a Service: ${service}`, async (t) => {
      const findings = await ask([slices], { service })
      t.match(
        findings.find(({ subject }) => subject === `Service ${service}`),
        expected,
      )
    })
  }
}

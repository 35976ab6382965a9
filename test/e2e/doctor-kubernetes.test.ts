import { join } from 'node:path'
import t, { type Test } from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { doctor } from '../../src/agentk/doctor/doctor.ts'
import { checkKubernetes } from '../../src/kas/cli/doctor/kubernetes.ts'
import { parseKasConfig } from '../../src/kas/config/kas-config.ts'
import type { Finding } from '../../src/lib/doctor/findings.ts'
import { runChecks } from '../../src/lib/doctor/run-checks.ts'
import { ClusterClient } from '../../src/membership/discovery/kubernetes/cluster-client.ts'
import { eventually } from '../support/eventually.ts'

/** The requests of `kas doctor` to a real API server, as an account with the rights of each case. */

t.setTimeout(120_000)

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const env = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: '443', POD_NAME: 'kas-0' }
const clusterRbac = '/apis/rbac.authorization.k8s.io/v1'
const rbac = `${clusterRbac}/namespaces/kas`

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
  /** @returns a token of an account with those rights */
  async function accountWith(rules: readonly object[], clusterRules: readonly object[] = []): Promise<string> {
    const name = `account-${accounts++}`
    const account = await admin.create('/api/v1/namespaces/kas/serviceaccounts', { metadata: { name } })
    const subjects = [{ kind: 'ServiceAccount', namespace: 'kas', name }]
    await admin.create(`${rbac}/roles`, { metadata: { name }, rules })
    await admin.create(`${rbac}/rolebindings`, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects,
    })
    await admin.create(`${clusterRbac}/clusterroles`, { metadata: { name }, rules: clusterRules })
    await admin.create(`${clusterRbac}/clusterrolebindings`, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
      subjects,
    })
    const { uid } = account.metadata
    return controlPlane.signToken({ account: { namespace: 'kas', name, uid }, lifeMs: 3_600_000 })
  }

  async function ask(
    rules: readonly object[],
    { service = 'kas-private', podName = 'kas-0', told }: AskOptions = {},
  ): Promise<Finding[]> {
    const token = await accountWith(rules)
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
    return kubernetesFindings(configuration(service), {
      env: { ...env, POD_NAME: podName, POD_TERMINATION_GRACE_PERIOD_SECONDS: told },
      open,
    })
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
    t.match(short, [{ state: 'failed', text: /^30 s; kas takes up to 115 s/, advice: /make .* longer/ }])
    const absent = of(await ask([slices, pods], { podName: 'kas-9' }), 'graces')
    t.match(absent, [{ state: 'skipped', text: /its pod: HTTP 404/ }])
  })

  await t.test('a grace beyond that of a pod that may not be read, by what the chart has written', async (t) => {
    const graces = async (told: string, rules = [slices], podName = 'kas-0') =>
      of(await ask(rules, { told, podName }), 'graces')
    t.match(await graces('115'), [{ state: 'ok', text: /^115 s by .*which is not read \(kas may not read its own/ }])
    t.match(await graces('114'), [
      { state: 'failed', text: /^114 s .*kas takes up to 115 s/, advice: /make .* longer/ },
    ])
    t.match(await graces('600s'), [
      { state: 'skipped', text: /SECONDS is no number of seconds; kas takes up to 115 s/ },
    ])
    const own = await graces('600', [slices, pods], 'kas-1')
    t.match(own, [{ state: 'failed', text: /^30 s; kas takes up to 115 s/ }], 'the pod itself, where it may be read')
  })

  await t.test('an API server that takes no account of ours', async (t) => {
    const open = async () => {
      const client = await ClusterClient.open({ kubeconfig: controlPlane.kubeconfig, requestTimeoutMs: 10_000 })
      const cluster = client.config.getCurrentCluster()
      if (!cluster) throw new Error('the kubeconfig names no cluster')
      client.config.loadFromClusterAndUser(cluster, { name: 'nobody', token: 'of-nobody' })
      return client
    }
    const findings = await kubernetesFindings(configuration('kas-private'), { env, open })
    t.match(of(findings, 'kubernetes'), [
      { state: 'failed', text: /^it cannot be asked for: /, advice: /does the pod reach the API server/ },
      { state: 'skipped', text: 'its endpoints cannot be listed' },
    ])
    t.match(of(findings, 'graces'), [{ state: 'skipped' }])
    t.match(of(findings, 'clocks'), [{ state: /^(ok|skipped)$/ }], 'its refusal has a Date, or none has come')
  })

  await t.test('agentk doctor: the names of its lists, and what RBAC allows beyond', async (t) => {
    const listed = ['user:robot', 'group:robots', 'serviceaccount:kas:deployer', 'extra:example.com/reason', 'uid:7']
    const flags = [...listed.map((one) => `--may-impersonate=${one}`), '--callers-may-impersonate=user:bob']
    const rule = (apiGroup: string, resource: string, resourceNames?: string[]) => ({
      apiGroups: [apiGroup],
      resources: [resource],
      ...(resourceNames ? { resourceNames } : {}),
      verbs: ['impersonate'],
    })
    const cases: [name: string, rules: object[], refused: string[], beyond: string[]][] = [
      ['no role', [], [...flags], []],
      [
        'a role of these names',
        [
          rule('', 'users', ['robot', 'bob']),
          rule('', 'groups', ['robots']),
          rule('authentication.k8s.io', 'userextras/example.com/reason'),
          rule('authentication.k8s.io', 'uids', ['7']),
        ],
        [],
        [],
      ],
      [
        'a role of any name',
        [rule('', 'users'), rule('', 'groups'), rule('', 'serviceaccounts')],
        ['--may-impersonate=extra:example.com/reason', '--may-impersonate=uid:7'],
        ['impersonate users', 'impersonate groups system:masters', 'impersonate serviceaccounts'],
      ],
      [
        'a role of system:masters alone',
        [rule('', 'groups', ['system:masters'])],
        flags,
        ['impersonate groups system:masters'],
      ],
    ]
    for (const [name, rules, refused, beyond] of cases) {
      await t.test(name, async (t) => {
        const own = name === 'a role of these names' ? [rule('', 'serviceaccounts', ['deployer'])] : []
        const token = await accountWith(own, rules)
        const rights = of(await agentkFindings(t, controlPlane, token, flags), 'rights')
        const failed = rights.filter(({ state, subject = '' }) => state === 'failed' && subject.startsWith('--'))
        t.strictSame(failed.map(({ subject }) => subject).sort(), [...refused].sort())
        for (const { text } of failed)
          t.match(text, /^the cluster refuses it: agentk's account has no right to impersonate /)
        const notes = rights.filter(({ state, subject = '' }) => state === 'note' && subject.startsWith('beyond'))
        t.strictSame(
          notes.map(({ subject }) => subject),
          beyond.map((right) => `beyond the lists: ${right}`),
        )
      })
    }
  })

  await t.test('a cluster that lets nobody ask what he may', async (t) => {
    const bindings = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings'
    for (const name of ['system:basic-user', 'system:discovery', 'system:public-info-viewer']) {
      t.equal((await admin.request(`${bindings}/${name}`, { method: 'DELETE' })).status, 200, name)
    }
    const token = await accountWith([])
    await t.test('kas doctor', async (t) => {
      const findings = await eventually(async () => {
        const found = await ask([])
        if (!JSON.stringify(found).includes('system:basic-user')) throw new Error(JSON.stringify(found))
        return found
      })
      t.match(of(findings, 'kubernetes'), [
        { state: 'failed', text: /cannot be asked for: HTTP 403/, advice: /system:basic-user.*apply the Role/ },
        { state: 'skipped', text: 'its endpoints cannot be listed' },
      ])
      t.match(of(findings, 'graces'), [{ state: 'skipped', text: /kas may not read its own pod/ }])
      const ok = findings.filter(({ state }) => state === 'ok')
      t.match(ok, [{ check: 'clocks', subject: 'API server' }], 'by the Date of a refusal, and nothing else')
      t.equal(ok.length, 1)
    })
    await t.test('agentk doctor', async (t) => {
      const findings = await agentkFindings(t, controlPlane, token)
      const ofCluster = findings.filter(({ check }) => ['cluster', 'rights', 'clocks'].includes(check))
      t.match(of(ofCluster, 'cluster'), [{ state: 'failed', text: /403/, advice: /bind .* system:discovery/ }])
      const rights = of(ofCluster, 'rights')
      t.ok(rights.length > 3)
      for (const { state, text, advice = '' } of rights) {
        t.equal(state, 'skipped')
        t.match(text, 'the review was answered with 403')
        t.match(advice, 'system:basic-user')
      }
      t.match(of(ofCluster, 'clocks'), [{ state: 'ok' }])
    })
  })
})

/** Returns the findings as the doctor does, with the names of their checks. */
function kubernetesFindings(...asked: Parameters<typeof checkKubernetes>): Promise<Finding[]> {
  return runChecks([{ name: 'kubernetes', run: () => checkKubernetes(...asked) }], {})
}

async function agentkFindings(
  t: Test,
  { server, folder }: ControlPlane,
  token: string,
  more: readonly string[] = [],
): Promise<Finding[]> {
  const tokenFile = join(t.testdir({ token: 'of-nobody' }), 'token')
  const flags = {
    'kas-address': 'grpc://127.0.0.1:1',
    'token-file': tokenFile,
    server,
    'certificate-authority': join(folder, 'ca.crt'),
    token,
  }
  let stdout = ''
  const write = (text: string) => {
    stdout += text
  }
  const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`)
  await doctor([...args, ...more, '--output', 'json'], {
    env: { POD_NAME: 'agentk-0', POD_NAMESPACE: 'kas' },
    version: { version: '1.2.3', commit: 'abc' },
    stdout: { write },
  })
  return JSON.parse(stdout).findings
}

interface AskOptions {
  readonly service?: string
  readonly podName?: string
  /** value of POD_TERMINATION_GRACE_PERIOD_SECONDS */
  readonly told?: string
}

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

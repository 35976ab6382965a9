import { readFileSync } from 'node:fs'
import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { type ChartName, chartsFolder } from '../../dev/charts/helm.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { AccountRights, discoveryRights, impersonationRights, leaseRights } from '../support/account-rights.ts'
import { helmProgram, skip as withoutHelm } from '../support/charts/chart-words.ts'
import { Kubectl } from '../support/kubectl.ts'
import { assets, skip as withoutCluster } from '../support/kubectl-stack.ts'
import { Processes } from '../support/processes.ts'

/** The charts, installed by helm at a real API server, in namespaces that enforce the `restricted` profile. */

const values = (chart: ChartName, name: string) => join(import.meta.dirname, `../support/charts/${chart}/${name}.yaml`)
/** time for helm to wait for pods, on a busy machine */
const patience = '--timeout=60s'
const patienceMs = 70_000
const least = values('agentk', 'least')

t.test('charts at a real API server', { skip: withoutHelm || withoutCluster, timeout: 300_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin, kubeconfig } = controlPlane
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig })
  const rights = new AccountRights(kubectl)

  /** Runs helm. @returns all that it prints, with all warnings of the API server */
  const helm = async (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> => {
    const environment = { KUBECONFIG: kubeconfig, HELM_CACHE_HOME: join(processes.folder, 'helm') }
    const process = await processes.spawn({ command: helmProgram ?? '', args, environment })
    const { code, stdout, stderr } = await process.ends({ timeoutMs: patienceMs })
    return { code, stdout: stdout.toString(), stderr }
  }
  const createNamespace = async (name: string) => {
    const labels = ['enforce', 'warn', 'audit'].map((mode) => [`pod-security.kubernetes.io/${mode}`, 'restricted'])
    await admin.create('/api/v1/namespaces', { metadata: { name, labels: Object.fromEntries(labels) } })
  }
  const statefulSet = () => admin.get('/apis/apps/v1/namespaces/kas/statefulsets/kas')

  await createNamespace('kas')
  await createNamespace('agentk')
  const secrets: [namespace: string, name: string, key: string][] = [
    ['kas', 'kas-directory', 'directory.yaml'],
    ['kas', 'kas-private', 'kas_private_api_secret'],
    ['agentk', 'agentk-token', 'token'],
    ['agentk', 'gitlab-agent-token', 'token'],
  ]
  for (const [namespace, name, key] of secrets) {
    await admin.create(`/api/v1/namespaces/${namespace}/secrets`, { metadata: { name }, stringData: { [key]: 'text' } })
  }
  /** all Secrets but those in which helm keeps its releases */
  const secretNames = async (): Promise<string[]> => {
    const { items } = await admin.get('/api/v1/namespaces/kas/secrets')
    const secrets: { metadata: { name: string }; type: string }[] = items
    return secrets.filter(({ type }) => !type.startsWith('helm.sh/')).map(({ metadata }) => metadata.name)
  }

  await t.test('kas: installed without a word of warning, with no rights but to find replicas', async (t) => {
    const before = await secretNames()
    const folder = join(chartsFolder, 'kas')
    const args = ['install', 'kas', folder, '--namespace=kas', `--values=${values('kas', 'least')}`, '--wait', patience]
    const { code, stdout, stderr } = await helm(...args)
    t.strictSame({ code, stderr }, { code: 0, stderr: '' })
    t.match(stdout, /A pod has 600 s to stop/)
    t.match(stdout, /ports are plain: set tls\.secret/)
    t.strictSame(await secretNames(), before, 'no secret is made up')
    t.match((await statefulSet()).status, { readyReplicas: 3 })
    t.strictSame(await rights.of('kas:kas', 'kas'), discoveryRights('kas-private').sort())
    t.strictSame(await rights.of('kas:kas', 'default'), [])
  })

  await t.test(
    'kas: a changed configuration of a later chart comes to the same pods, one by one, and goes back',
    async (t) => {
      const later = join(processes.folder, 'later')
      await cp(join(chartsFolder, 'kas'), later, { recursive: true })
      const chart = parse(readFileSync(join(later, 'Chart.yaml'), 'utf8'))
      await writeFile(join(later, 'Chart.yaml'), stringify({ ...chart, version: '0.1.1', appVersion: '0.1.1' }))
      const before = await statefulSet()
      const set = '--set=customConfig.observability.logging.level=debug'
      const upgrade = ['upgrade', 'kas', later, '--namespace=kas', '--reuse-values', set, '--wait', patience]
      const { code, stderr } = await helm(...upgrade)
      t.strictSame({ code, stderr }, { code: 0, stderr: '' })
      const after = await statefulSet()
      t.equal(after.metadata.uid, before.metadata.uid, 'it was not made anew: its selector is the same')
      t.strictSame(after.spec.updateStrategy.type, 'RollingUpdate')
      t.not(after.status.updateRevision, before.status.updateRevision)
      t.match(after.status, { currentRevision: after.status.updateRevision, readyReplicas: 3 })
      t.match(after.spec.template.spec.containers[0].image, /:0\.1\.1$/)
      const back = await helm('rollback', 'kas', '1', '--namespace=kas', '--wait', patience)
      t.strictSame([back.code, back.stderr], [0, ''])
      t.strictSame((await statefulSet()).spec, before.spec)
    },
  )

  await t.test('kas: an autoscaler that is turned on starts from the replicas that there are', async (t) => {
    const before = await statefulSet()
    // the autoscaler needs fewer replicas, so it would not replace lost ones
    const set = '--set=autoscaling.enabled=true,autoscaling.minReplicas=1'
    const upgrade = ['upgrade', 'kas', join(chartsFolder, 'kas'), '--namespace=kas', '--reuse-values', set]
    const { code, stderr } = await helm(...upgrade)
    t.strictSame({ code, stderr }, { code: 0, stderr: '' })
    t.strictSame((await statefulSet()).spec, before.spec)
    const back = await helm('rollback', 'kas', '1', '--namespace=kas', '--wait', patience)
    t.strictSame([back.code, back.stderr], [0, ''])
    t.strictSame((await statefulSet()).spec, before.spec)
  })

  await t.test("agentk: a values file of GitLab's chart installs it, and what has no effect is said", async (t) => {
    const folder = join(chartsFolder, 'agentk')
    const args = ['install', 'agentk', folder, '--namespace=agentk', `--values=${values('agentk', 'stock')}`]
    const { code, stdout, stderr } = await helm(...args, '--set=config.agentId=42', '--wait', patience)
    t.strictSame({ code, stderr }, { code: 0, stderr: '' })
    const [, without = ''] = /^Without effect, of GitLab's chart: (.*)\.$/m.exec(stdout) ?? []
    const ours = ['api', 'privateApi', 'operational_container_scanning', 'receptive'].map((key) => `config.${key}`)
    t.strictSame(without.split(', '), [...ours, 'service', 'ingress', 'ingress-nginx'])
    t.match(stdout, /never cluster-admin, which GitLab's chart binds/)
    t.strictSame(await rights.of('agentk:agentk', 'agentk'), [...leaseRights(42), ...impersonationRights()].sort())
    t.strictSame(await rights.of('agentk:agentk', 'default'), impersonationRights().sort())
  })

  await t.test('agentk: rights become those that values name, in place of the others', async (t) => {
    const upgrade = async (file: string, ...set: string[]) => {
      const folder = join(chartsFolder, 'agentk')
      const common = [`--values=${values('agentk', file)}`, '--set=config.agentId=42,config.secretKey=token', ...set]
      const { code, stdout, stderr } = await helm('upgrade', 'agentk', folder, '--namespace=agentk', ...common)
      t.strictSame({ code, stderr }, { code: 0, stderr: '' })
      return stdout
    }
    const groups = ['gitlab:user', 'gitlab:project:7']
    const some = groups.map((group, i) => `--set=rbac.impersonation.groups[${i}]=${group}`)
    await upgrade('least', ...some)
    t.strictSame(
      await rights.of('agentk:agentk', 'default'),
      impersonationRights(groups).sort(),
      'groups that are named',
    )

    await admin.create('/api/v1/namespaces', { metadata: { name: 'team-a' } })
    await admin.create('/api/v1/namespaces', { metadata: { name: 'team-b' } })
    t.match(await upgrade('namespaces'), /in the namespace team-b what its service account deployer may/)
    const as = (account: string) => [`serviceaccounts [] [${account}] [impersonate]`]
    t.strictSame(await rights.of('agentk:agentk', 'agentk'), leaseRights(42).sort())
    t.strictSame(await rights.of('agentk:agentk', 'default'), [])
    t.strictSame(await rights.of('agentk:agentk', 'team-a'), as('gitlab'))
    t.strictSame(await rights.of('agentk:agentk', 'team-b'), as('deployer'))
    const callers = ['configmaps [] [settings] [get]', 'deployments.apps [] [] [get list]']
    t.strictSame(await rights.of('team-a:gitlab', 'team-a'), callers)

    await upgrade('least', '--set=rbac.useExistingRole=system:discovery')
    t.strictSame(await rights.of('agentk:agentk', 'default'), [], 'the existing role has what everybody has')
    const { roleRef } = await admin.get('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/agentk')
    t.match(roleRef, { kind: 'ClusterRole', name: 'system:discovery' })

    await upgrade('least', '--set=rbac.create=false')
    t.strictSame(await rights.of('agentk:agentk', 'agentk'), [], 'nothing is bound')
  })

  await t.test('agentk: views, Flux and sources have rights where they are turned on, and no other', async (t) => {
    await admin.create('/api/v1/namespaces', { metadata: { name: 'shop' } })
    const values = join(processes.folder, 'agentk-more.json')
    const gitops = {
      enabled: true,
      sources: [{ namespace: 'shop', serviceAccount: 'deployer', clusterRole: 'system:discovery' }],
    }
    const upgrade = async (rbac: object) => {
      await writeFile(values, JSON.stringify({ rbac: { impersonation: { enabled: false }, ...rbac } }))
      const args = ['upgrade', 'agentk', join(chartsFolder, 'agentk'), '--namespace=agentk', `--values=${least}`]
      const { code, stdout, stderr } = await helm(...args, `--values=${values}`, '--set=config.agentId=42')
      t.strictSame({ code, stderr }, { code: 0, stderr: '' })
      return stdout
    }
    t.match(await upgrade({ flux: { enabled: true }, gitops }), /a source acts in shop as deployer/)
    const receivers = 'receivers.notification.toolkit.fluxcd.io'
    const followed = [
      'gitrepositories.source.toolkit.fluxcd.io [] [] [list watch]',
      `${receivers} [] [] [list watch]`,
      'apiservices.apiregistration.k8s.io [] [] [list watch]',
      'customresourcedefinitions.apiextensions.k8s.io [] [] [get list watch]',
    ]
    t.strictSame(await rights.of('agentk:agentk', 'default'), followed.sort(), 'Flux and APIs, in the whole cluster')
    t.strictSame(
      (await rights.of('agentk:agentk', 'agentk')).filter((line) => !followed.includes(line)),
      [...leaseRights(42), ...ownGitopsRights].sort(),
      'sources, at home',
    )
    const policies = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies'
    t.match(await admin.get(`${policies}/agentk-kept-in-git-agentk`), { spec: { failurePolicy: 'Ignore' } })
    const inShop = await rights.of('agentk:agentk', 'shop')
    t.strictSame(
      inShop.filter((line) => !followed.includes(line)),
      ['serviceaccounts [] [deployer] [impersonate]'],
    )

    t.match(
      await upgrade({ views: { enabled: true, vendors: true } }),
      /lists and watches what Kubernetes' role view may/,
    )
    t.strictSame((await admin.get(policies)).items, [], 'without sources there is no warning about changes by hand')
    const seen = await rights.of('agentk:agentk', 'default')
    t.ok(seen.length > 50, `${seen.length} lines`)
    t.strictSame(
      seen.filter((line) => !/ \[(?:get|list|watch| )+\]$/.test(line)),
      [],
      'nothing is changed',
    )
    t.notMatch(seen.join('\n'), /\*|^secrets /m)
    const { metadata } = await admin.get(
      '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gitsyncs.agent.gitlab.com',
    )
    t.equal(metadata.annotations['helm.sh/resource-policy'], 'keep', 'the kind stays, with what people paused')
  })

  await t.test('agentk: an account that may make no admission policy installs it without the warning', async (t) => {
    await createNamespace('confined')
    const binding = ['create', 'rolebinding', 'installer', '--clusterrole=cluster-admin', '--user=x']
    await kubectl.with({ namespace: 'confined' }).ok(binding)
    const install = (...set: string[]) => {
      const own = ['enabled=true', 'crd=false', 'apis=false'].map((value) => `rbac.gitops.${value}`)
      own.push('rbac.impersonation.enabled=false', ...set)
      const args = ['upgrade', '--install', 'confined', join(chartsFolder, 'agentk'), '--namespace=confined']
      return helm(...args, `--values=${least}`, `--set=${own.join()}`, '--kube-as-user=x')
    }
    const refused = await install()
    const words = /validatingadmissionpolicies\.admissionregistration\.k8s\.io (?:".*" )?is forbidden/
    t.match(refused, { code: 1, stderr: words })
    const deployments = '/apis/apps/v1/namespaces/confined/deployments'
    t.strictSame((await admin.get(deployments)).items, [], 'nothing is installed')
    const { code, stdout, stderr } = await install('rbac.gitops.warn=false')
    t.strictSame({ code, stderr }, { code: 0, stderr: '' })
    t.notMatch(stdout, 'warn')
  })

  await t.test('two of each live beside one another', async (t) => {
    for (const chart of ['kas', 'agentk'] as const) {
      const name = `--namespace=${chart}`
      const args = ['install', 'other', join(chartsFolder, chart), name, `--values=${values(chart, 'least')}`]
      const { code, stderr } = await helm(...args, '--wait', patience)
      t.strictSame({ code, stderr }, { code: 0, stderr: '' }, chart)
    }
    const addressesOf = async (service: string) => {
      const label = `kubernetes.io/service-name=${service}`
      const path = `/apis/discovery.k8s.io/v1/namespaces/kas/endpointslices?labelSelector=${encodeURIComponent(label)}`
      const { items } = await admin.get(path)
      const slices: { endpoints?: { addresses: string[] }[] }[] = items
      return slices.flatMap(({ endpoints = [] }) => endpoints.flatMap(({ addresses }) => addresses))
    }
    const [own, others] = [await addressesOf('kas-private'), await addressesOf('other-kas-private')]
    t.strictSame([own.length, others.length], [3, 3])
    t.strictSame(
      own.filter((address) => others.includes(address)),
      [],
      'neither finds the replicas of the other',
    )
  })

  await t.test('what a cluster has no kind for is said in a sentence, and is installed once it has', async (t) => {
    const install = (chart: ChartName, file: string) => {
      const args = [join(chartsFolder, chart), `--namespace=${chart}`, `--values=${values(chart, file)}`]
      // the init container of the values does not meet `restricted`
      return helm('upgrade', '--install', `x-${file}`, ...args, '--set=initContainers=null')
    }
    const lacking: [file: string, kind: RegExp][] = [
      ['everything', /metrics\.serviceMonitor\.enabled is true, and the cluster knows no ServiceMonitor: install/],
      ['gitlab', /metrics\.podMonitor\.enabled is true, and the cluster knows no PodMonitor: install/],
      [
        'fronts',
        /gateway\.enabled is true, and the cluster knows no HTTPRoute: install the Gateway API 1.2 or later first/,
      ],
    ]
    for (const [file, words] of lacking) t.match(await install('kas', file), { code: 1, stderr: words })
    const kinds = [
      ...['ServiceMonitor', 'PodMonitor', 'PrometheusRule'].map((kind) => ['monitoring.coreos.com', kind] as const),
      ...['HTTPRoute', 'GRPCRoute'].map((kind) => ['gateway.networking.k8s.io', kind] as const),
    ]
    const definitions = join(processes.folder, 'definitions.json')
    await writeFile(definitions, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: kinds.map(definitionOf) }))
    await kubectl.ok(['apply', '--server-side', '-f', definitions])
    await kubectl.ok(['wait', '--for=condition=Established', '-f', definitions])
    const wanted: [ChartName, string][] = [
      ...(['gitlab', 'custom', 'fronts', 'everything'] as const).map((file): [ChartName, string] => ['kas', file]),
      ['agentk', 'existing-role'],
    ]
    for (const [chart, file] of wanted) {
      const { code, stdout, stderr } = await install(chart, file)
      t.strictSame({ code, stderr }, { code: 0, stderr: '' }, file)
      if (file === 'fronts') t.match(stdout, /^by gRPC +grpcs:\/\/agents\.example\.com$/m)
    }
    const set = '--set=metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true'
    const more = ['upgrade', 'kas', join(chartsFolder, 'kas'), '--namespace=kas', '--reuse-values', set]
    t.strictSame((await helm(...more)).stderr, '', 'rules and dashboard')
    t.match(await admin.get('/api/v1/namespaces/kas/configmaps/kas-dashboard'), { data: { 'kas.json': /"panels"/ } })
  })
})

/** Rights of agentk in its own namespace, for sources. */
const ownGitopsRights = [
  'configmaps [] [] [get list watch create update patch delete]',
  'events [] [] [create patch]',
  'gitsyncs.agent.gitlab.com [] [] [get list watch create patch delete]',
  'gitsyncs.agent.gitlab.com/status [] [] [patch]',
]

/** Definition of another project's kind, whose objects may have any field. */
function definitionOf([group, kind]: readonly [group: string, kind: string]): object {
  const singular = kind.toLowerCase()
  const names = { kind, plural: `${singular}s`, singular, listKind: `${kind}List` }
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } }
  // needed for a group of Kubernetes' own; the Gateway API has it, too
  const annotations = { 'api-approved.kubernetes.io': 'https://github.com/kubernetes-sigs/gateway-api/pull/1' }
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${names.plural}.${group}`, annotations },
    spec: { group, scope: 'Namespaced', names, versions: [{ name: 'v1', served: true, storage: true, schema }] },
  }
}

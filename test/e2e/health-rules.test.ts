import { join } from 'node:path'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { agentkAccount } from '../support/agentk-account.ts'
import { eventually } from '../support/eventually.ts'
import { runKas } from '../support/kas-command.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { impersonated } from '../support/stack-directory.ts'
import { kubeconfigEndpoint } from '../support/test-endpoint.ts'
import { LiveTree } from '../support/views/live-tree.ts'
import { widgetDefinition } from '../support/widget-definition.ts'

/** A rule of health from its push to a viewer, through kas and agentk as processes. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
/** limit; agentk checks its rights every minute */
const timeoutMs = 90_000

const file = '.gitlab/agents/prod/views.yaml'
const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const rbac = '/apis/rbac.authorization.k8s.io/v1'
const rule = (when: string, verdict: string) =>
  `health:\n  - kind: example.com/Widget\n    rules: [{ when: "${when}", verdict: ${verdict}, text: "'it is bad'" }]\n`
const isBad = "at(object, 'spec.bad', false)"

t.test('a rule of health, from a push to who looks', { skip, timeout: 240_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin } = controlPlane
  await admin.create('/api/v1/namespaces', { metadata: { name: 'shop' } })
  await admin.create(crds, widgetDefinition)
  await eventually(async () => {
    await admin.create('/apis/example.com/v1/namespaces/shop/widgets', {
      apiVersion: 'example.com/v1',
      kind: 'Widget',
      metadata: { name: 'one' },
      spec: { bad: true },
    })
    return true
  })
  await admin.create(`${rbac}/clusterrolebindings`, {
    metadata: { name: 'ada' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: impersonated.user.username }],
  })
  const manifests = ['agentk', 'agentk-access/cluster-wide.yaml', 'agentk-views']
  const agentKubeconfig = await agentkAccount(controlPlane, join(processes.folder, 'agentk'), manifests)
  const stack = await Stack.start(processes, { agentKubeconfig })
  await stack.repository.push(file, rule(isBad, 'Degraded'))
  await stack.startAgentk({ environment: { POD_NAMESPACE: 'agentk' } })
  await stack.connected()
  const user = stack.kubeconfig('user')
  const view = new LiveTree({
    endpoint: await kubeconfigEndpoint(user),
    query: { view: 'tree', limit: 500 },
  })
  t.teardown(() => view.stop())
  const isFollowed = () => view.isLive && !view.state?.notFollowed?.some((kind) => kind.startsWith('example.com/'))

  await t.test('kas views role prints what agentk needs to follow what the caller may list', async (t) => {
    await view.until('widgets are not followed', () => view.isLive && !isFollowed(), timeoutMs)
    const { stdout, stderr } = await runKas(['views', 'role'], user)
    t.equal(stderr, '')
    const [role, binding] = parseAllDocuments(stdout).map((document) => document.toJS())
    const verbs = ['get', 'list', 'watch']
    t.match(
      role.rules.find(({ apiGroups }: { apiGroups: string[] }) => apiGroups[0] === 'example.com'),
      { resources: ['widgets'], verbs },
    )
    await admin.create(`${rbac}/clusterroles`, role)
    await admin.create(`${rbac}/clusterrolebindings`, binding)
    t.match(binding.subjects, [{ kind: 'ServiceAccount', name: 'agentk', namespace: 'agentk' }])
    await view.until('widgets are followed', isFollowed, timeoutMs)
    t.match(await runKas(['views', 'role'], user), { code: 0, stdout: '', stderr: /follows all/ })
  })

  /** The widget's verdict and the rules' problems, as the viewer gets them. */
  const told = () => {
    const widget = view.roots.find(({ k }) => k === 'example.com/Widget')
    return { verdict: widget?.h?.[0] ?? '', problems: view.state?.problems ?? [] }
  }
  const become = (wanted: string, problem?: RegExp) =>
    view.until(
      `${wanted}, ${problem}`,
      () => {
        const { verdict, problems } = told()
        const isSo = problem ? problem.test(problems.join('\n')) : problems.length === 0
        return verdict === wanted && isSo && { verdict, problems }
      },
      timeoutMs,
    )

  await t.test('one that is broken keeps its last good form, and who looks reads so', async (t) => {
    await become('Degraded')
    const kept = 'rule of health example.com/Widget cannot be used, its last good form stays: '
    await stack.repository.push(file, rule('at(object,', 'Suspended'))
    const { problems } = await become('Degraded', /stays: rules\[0\]\.when: .*:1:3/)
    t.ok(problems.length === 1 && problems[0]?.startsWith(kept), problems.join())
    await stack.repository.push(file, rule('true', 'Splendid'))
    await become('Degraded', /stays: rules\.0\.verdict: /)
    t.ok((await runKas(['tree', '-n', 'shop'], user)).stdout.startsWith(`${kept}rules.0.verdict: `))
    await stack.repository.push(file, 'health: [{ kind: example.com/Widget }]\n')
    await become('Degraded', /^views\.yaml cannot be used, the last good one stays: .*line 1: .*rules/)
    await stack.repository.push(file, rule('true', 'Suspended'))
    t.strictSame(await become('Suspended'), { verdict: 'Suspended', problems: [] })
  })

  await t.test('one that never was good is not used, and who looks reads so', async () => {
    await stack.repository.push(file, 'health: []\n')
    await become('')
    await stack.repository.push(file, rule(')', 'Healthy'))
    await become(
      '',
      /^rule of health example\.com\/Widget is not used, and no earlier form of it is known: rules\[0\]\.when: /,
    )
  })
})

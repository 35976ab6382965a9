import { spawn } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import type { Row, ViewState } from '../../src/proto/views-json.ts'
import { agentkAccount } from '../support/agentk-account.ts'
import { eventually } from '../support/eventually.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { impersonated } from '../support/stack-directory.ts'
import { widgetDefinition } from '../support/widget-definition.ts'

/** A rule of health on its whole way, from a push to who looks, through kas and agentk as processes. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const kas = new URL('../../src/kas/main.ts', import.meta.url).pathname

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

  await t.test('kas views role prints what agentk needs to follow what the caller may list', async (t) => {
    const { stdout, stderr } = await eventually(
      async () => {
        const answer = await run(['views', 'role'], user)
        if (!answer.stdout.includes('example.com')) throw new Error(`not yet: ${answer.stdout} ${answer.stderr}`)
        return answer
      },
      { timeoutMs: 60_000 },
    )
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
    await eventually(
      async () => {
        const answer = await run(['views', 'role'], user)
        if (answer.stdout !== '' || !answer.stderr.includes('follows all')) throw new Error(`not yet: ${answer.stdout}`)
        return true
      },
      { timeoutMs: 90_000 },
    )
  })

  /** What who looks is told of the widget, and of rules. */
  const told = async () => {
    const { code, stdout, stderr } = await run(['get', 'example.com/Widget', '-o', 'json'], user)
    if (code !== 0) throw new Error(`kas get: ${code} ${stderr}`)
    const { rows, state } = JSON.parse(stdout) as { rows: readonly Row[]; state: ViewState }
    return { verdict: rows[0]?.h?.[0] ?? '', problems: state.problems ?? [] }
  }
  const become = (verdict: string, problem?: RegExp) =>
    eventually(
      async () => {
        const found = await told()
        const isSo = problem ? problem.test(found.problems.join('\n')) : found.problems.length === 0
        if (found.verdict !== verdict || !isSo) throw new Error(`not yet: ${JSON.stringify(found)}`)
        return found
      },
      { timeoutMs: 60_000 },
    )

  await t.test('one that is broken keeps its last good form, and who looks reads so', async (t) => {
    await become('Degraded')
    const kept = 'rule of health example.com/Widget cannot be used, its last good form stays: '
    await stack.repository.push(file, rule('at(object,', 'Suspended'))
    const { problems } = await become('Degraded', /stays: rules\[0\]\.when: .*:1:3/)
    t.ok(problems.length === 1 && problems[0]?.startsWith(kept), problems.join())
    await stack.repository.push(file, rule('true', 'Splendid'))
    await become('Degraded', /stays: rules\.0\.verdict: /)
    t.ok((await run(['tree', '-n', 'shop'], user)).stdout.startsWith(`${kept}rules.0.verdict: `))
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

/** `kas …` as a process of its own. */
function run(
  args: readonly string[],
  kubeconfig: string,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [kas, ...args], { env: { ...process.env, KUBECONFIG: kubeconfig } })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
}

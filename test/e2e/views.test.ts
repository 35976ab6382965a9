import { spawn } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import type { ObjectList } from '../../src/kas/modules/views/cli/output/views-output-kinds.ts'
import { agentkAccount } from '../support/agentk-account.ts'
import { eventually } from '../support/eventually.ts'
import type { Identity } from '../support/kubectl-side.ts'
import { checkedOutput } from '../support/output-schema.ts'
import { Processes } from '../support/processes.ts'
import { mainOf } from '../support/programs.ts'
import { Stack } from '../support/stack.ts'
import { impersonated } from '../support/stack-directory.ts'

/** A user who views a cluster with real controllers, through kas and agentk as processes. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'all')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

t.test('what runs in a cluster, for who may see it', { skip, timeout: 240_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin } = controlPlane
  for (const name of ['shop', 'bank']) await admin.create('/api/v1/namespaces', { metadata: { name } })
  await admin.create('/apis/apps/v1/namespaces/shop/deployments', deployment('web', 2))
  await admin.create('/apis/apps/v1/namespaces/bank/deployments', deployment('vault', 1))
  await allow(admin, 'shop')
  const manifests = ['agentk', 'agentk-access/cluster-wide.yaml', 'agentk-views']
  const agentKubeconfig = await agentkAccount(controlPlane, join(processes.folder, 'agentk'), manifests)
  const stack = await Stack.start(processes, { agentKubeconfig })
  await stack.repository.push('.gitlab/agents/prod/views.yaml', 'follow: { exclude: [Node] }\n')
  await stack.startAgentk({ environment: { POD_NAMESPACE: 'agentk' } })
  await stack.connected()
  const command = (...args: string[]) => run(['tree', ...args], stack.kubeconfig('agent'))
  const tree = async (identity: Identity, ...args: string[]) => {
    const { code, stdout, stderr } = await run(['tree', '-o', 'json', ...args], stack.kubeconfig(identity))
    if (code !== 0) throw new Error(`kas tree: ${code} ${stderr}`)
    return checkedOutput(stdout) as unknown as ObjectList
  }

  await t.test('the owner of all sees who belongs to whom', async (t) => {
    const found = await eventually(
      async () => {
        const { items } = await tree('agent', '-n', 'shop')
        const web = items.find(({ kind, name }) => kind === 'Deployment' && name === 'web')
        if (web?.verdict !== 'Healthy') throw new Error(`not yet: ${JSON.stringify(items)}`)
        return { web, items }
      },
      { timeoutMs: 90_000 },
    )
    const { web, items } = found
    t.match(web, { group: 'apps', namespace: 'shop', children: 1, facts: ['2/2 ready'] })
    const below = (parent: string | undefined) => items.filter((item) => item.parent === parent)
    const [set, ...others] = below(web.id)
    t.match(set, { group: 'apps', kind: 'ReplicaSet', verdict: 'Healthy', kstatus: 'Current', children: 2 })
    t.same(others, [])
    t.strictSame(
      below(set?.id).map(({ kind, verdict, argo, kstatus }) => [kind, verdict, argo, kstatus]),
      [
        ['Pod', 'Healthy', 'Healthy', 'Current'],
        ['Pod', 'Healthy', 'Healthy', 'Current'],
      ],
    )
    const { stdout } = await command('-n', 'shop')
    t.match(stdout, /^✓ Deployment\/web {2}2\/2 ready.*\n└─ ✓ ReplicaSet\/web-\w+ .*\n {3}├─ ✓ Pod\/web-/m)
  })

  await t.test('a user sees what he may list, and nothing of the rest', async (t) => {
    t.match(
      await run(['tree'], stack.kubeconfig('ci_job')),
      { code: 1, stderr: /may not list anything/ },
      'he may nothing',
    )
    const { items } = await tree('user')
    t.strictSame([...new Set(items.map(({ namespace }) => namespace))], ['shop'])
    t.match(
      items.find(({ kind }) => kind === 'Deployment'),
      { name: 'web' },
    )
  })

  await t.test('kas health waits for a rollout', async (t) => {
    const healthy = await run(['health', '-n', 'shop', '--wait', '60s'], stack.kubeconfig('agent'))
    t.match(healthy, { code: 0, stdout: /^✓ healthy|^‖ suspended/ })
    const broken = { ...deployment('stuck', 1), spec: { ...deployment('stuck', 1).spec, progressDeadlineSeconds: 2 } }
    Object.assign(broken.spec.template.spec, { nodeSelector: { no: 'such-node' } })
    await admin.create('/apis/apps/v1/namespaces/bank/deployments', broken)
    const degraded = await run(['health', '-n', 'bank', '--wait', '90s'], stack.kubeconfig('agent'))
    t.match(degraded, { code: 4, stdout: /^✗ degraded [\s\S]*bank\/Deployment\/stuck/ })
    t.match(await run(['health', '-n', 'nowhere'], stack.kubeconfig('agent')), { code: 5 })
  })

  await t.test('labels in another namespace change no verdict of an application', async (t) => {
    const labels = { 'kustomize.toolkit.fluxcd.io/namespace': 'shop', 'kustomize.toolkit.fluxcd.io/name': 'web' }
    const patch = { method: 'PATCH', contentType: 'application/merge-patch+json', body: { metadata: { labels } } }
    t.equal((await admin.request('/apis/apps/v1/namespaces/shop/deployments/web', patch)).status, 200)
    const spec = { type: 'LoadBalancer', ports: [{ port: 80 }], selector: { app: 'none' } }
    await admin.create('/api/v1/namespaces', { metadata: { name: 'mallory' } })
    await admin.create('/api/v1/namespaces/mallory/services', { metadata: { name: 'evil', labels }, spec })
    const health = (...args: string[]) =>
      run(['health', '--application', 'shop/web', ...args], stack.kubeconfig('agent'))
    await eventually(async () => (await health('-n', 'mallory')).code === 3 || Promise.reject(new Error('not yet')))
    t.match(await health(), { code: 0, stdout: '✓ healthy (1 healthy)\n' })
    t.match(await health('-n', 'shop', '-n', 'mallory'), { code: 3 }, 'who names the namespace has it counted')
  })
})

/** Runs `kas …` as a process of its own. */
function run(
  args: readonly string[],
  kubeconfig: string,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [mainOf('kas'), ...args], { env: { ...process.env, KUBECONFIG: kubeconfig } })
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

function deployment(name: string, replicas: number) {
  const labels = { app: name }
  const containers = [{ name: 'main', image: 'none' }]
  return {
    metadata: { name },
    spec: {
      replicas,
      progressDeadlineSeconds: 600,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers } },
    },
  }
}

/** Lets the user list everything in a namespace. */
async function allow(admin: ApiClient, namespace: string): Promise<void> {
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings`
  await admin.create(rbac, {
    metadata: { name: 'viewer' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
    subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: impersonated.user.username }],
  })
}

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import type { Row } from '../../src/proto/views-json.ts'
import { agentkAccount } from '../support/agentk-account.ts'
import { eventually } from '../support/eventually.ts'
import type { Identity } from '../support/kubectl-side.ts'
import { Processes } from '../support/processes.ts'
import { mainOf } from '../support/programs.ts'
import { Stack } from '../support/stack.ts'
import { impersonated } from '../support/stack-directory.ts'

/** A user who looks at a cluster with real controllers, through kas and agentk as processes. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'all')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

type Nested = Row & { readonly children?: readonly Nested[] }
interface Tree {
  readonly rows: readonly Nested[]
}

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
    return JSON.parse(stdout) as Tree
  }

  await t.test('the owner of all sees who belongs to whom', async (t) => {
    const found = await eventually(
      async () => {
        const { rows } = await tree('agent', '-n', 'shop')
        const web = rows.find(({ k, n }) => k === 'apps/Deployment' && n === 'web')
        if (web?.h?.[0] !== 'Healthy') throw new Error(`not yet: ${JSON.stringify(rows)}`)
        return web
      },
      { timeoutMs: 90_000 },
    )
    t.match(found, { ns: 'shop', h: ['Healthy', 'Current'], c: 1, f: ['2/2 ready'] })
    const [set] = found.children ?? []
    t.match(set, { k: 'apps/ReplicaSet', h: ['Healthy', 'Current'], c: 2 })
    t.strictSame(
      set?.children?.map(({ k, h }) => [k, h]),
      [
        ['Pod', ['Healthy', 'Current', 'Healthy']],
        ['Pod', ['Healthy', 'Current', 'Healthy']],
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
    const { rows } = await tree('user')
    t.strictSame([...new Set(rows.map(({ ns }) => ns))], ['shop'])
    t.match(
      rows.find(({ k }) => k === 'apps/Deployment'),
      { n: 'web' },
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

/** `kas …` as a process of its own. */
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

/** The user may list everything in a namespace. */
async function allow(admin: ApiClient, namespace: string): Promise<void> {
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings`
  await admin.create(rbac, {
    metadata: { name: 'viewer' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
    subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: impersonated.user.username }],
  })
}

import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { agentkAccount } from '../support/agentk-account.ts'
import { eventually } from '../support/eventually.ts'
import { runKas as kas } from '../support/kas-command.ts'
import { Kubectl } from '../support/kubectl.ts'
import { assets, skip } from '../support/kubectl-stack.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { impersonated } from '../support/stack-directory.ts'
import { answerOf, firstWords } from '../support/views/first-words.ts'

/** First commands of a new user, beside kubectl's answers to the same words (doc/reference/first-words.md). */

t.test('what one types first', { skip, timeout: 240_000 }, async (t) => {
  const { stack, processes, admin } = await start(t)
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig: stack.kubeconfig('agent') })
  for (const one of firstWords) {
    const { argv, as = 'agent', code, out, err, isSame } = one
    const kubeconfig = stack.kubeconfig(as)
    const said = await kas(argv.split(' '), kubeconfig)
    const title = `kas ${argv}, as ${as}`
    t.equal(said.code, code, `${title}: ${said.stderr}`)
    if (out) t.match(said.stdout, out, title)
    if (err) t.match(said.stderr, err, title)
    if (code !== 0 && code < 3) t.not(said.stderr, '', title)
    const theirs = answerOf(one)
    if (theirs) {
      const exit = await kubectl.with({ kubeconfig }).run(theirs.argv.split(' '))
      t.equal(exit.code, theirs.code, `kubectl ${theirs.argv}: ${exit.stderr}`)
      const lines = (text: string) => text.trim().split('\n').sort()
      if (isSame) t.strictSame(lines(said.stdout), lines(String(exit.stdout)), title)
    }
  }
  await t.test('a definition and its instance that come after the gate was asked', async (t) => {
    const gizmo = { ...instance, kind: 'Gizmo', metadata: { name: 'one', namespace: 'shop' } }
    const definition = definitionOf('Gizmo', 'gizmos')
    const manifests = [
      { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', ...definition },
      gizmo,
    ]
    const argv = ['health', '-f', '-', '--wait', '60s', '--stable', '1s']
    const asked = kas(argv, stack.kubeconfig('agent'), manifests.map((one) => JSON.stringify(one)).join('\n---\n'))
    await admin.create('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition)
    await eventually(() => admin.create('/apis/example.com/v1/namespaces/shop/gizmos', gizmo))
    t.match(await asked, { code: 0 }, (await asked).stderr)
  })
  await t.test('what is deleted while it is waited for', async (t) => {
    await admin.create('/apis/apps/v1/namespaces/shop/deployments', deployment('doomed', 0))
    const asked = kas(
      ['health', 'deploy/doomed', '-n', 'shop', '--wait', '8s', '--stable', '1h'],
      stack.kubeconfig('agent'),
    )
    await eventually(async () => {
      const { code } = await kas(['get', 'deploy/doomed', '-n', 'shop'], stack.kubeconfig('agent'))
      if (code !== 0) throw new Error('not there yet')
    })
    await admin.request('/apis/apps/v1/namespaces/shop/deployments/doomed', { method: 'DELETE' })
    const { code, stdout } = await asked
    t.match({ code, stdout }, { code: 5, stdout: /○ deploy\/doomed is not there/ })
  })
})

async function start(t: Test) {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin } = controlPlane
  await fill(admin)
  const manifests = ['agentk', 'agentk-access/cluster-wide.yaml', 'agentk-views']
  const agentKubeconfig = await agentkAccount(controlPlane, join(processes.folder, 'agentk'), manifests)
  await admin.create(`${rbac}/clusterroles`, {
    metadata: { name: 'widgets' },
    rules: [{ apiGroups: ['example.com'], resources: ['*'], verbs: ['get', 'list', 'watch'] }],
  })
  await admin.create(`${rbac}/clusterrolebindings`, {
    metadata: { name: 'widgets' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'widgets' },
    subjects: [{ kind: 'ServiceAccount', name: 'agentk', namespace: 'agentk' }],
  })
  const stack = await Stack.start(processes, { agentKubeconfig })
  await stack.repository.push('.gitlab/agents/prod/views.yaml', '{}\n')
  await stack.startAgentk({ environment: { POD_NAMESPACE: 'agentk' } })
  await stack.connected()
  await eventually(
    async () => {
      const { code, stderr } = await kas(['health', 'deploy/web', '-n', 'shop'], stack.kubeconfig('agent'))
      const widgets = await kas(['get', 'wd', '-n', 'shop'], stack.kubeconfig('agent'))
      if (code !== 0 || widgets.code !== 0) throw new Error(`not yet: ${code} ${stderr} ${widgets.stderr}`)
    },
    { timeoutMs: 90_000 },
  )
  return { stack, processes, admin }
}

const rbac = '/apis/rbac.authorization.k8s.io/v1'

async function fill(admin: ApiClient): Promise<void> {
  for (const name of ['shop', 'bank']) await admin.create('/api/v1/namespaces', { metadata: { name } })
  await admin.create('/apis/apps/v1/namespaces/shop/deployments', deployment('web', 2))
  await admin.create('/apis/apps/v1/namespaces/bank/deployments', deployment('vault', 1))
  const spec = { ports: [{ port: 80 }], selector: { app: 'web' } }
  await admin.create('/api/v1/namespaces/shop/services', { metadata: { name: 'web' }, spec })
  await admin.create(
    '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
    definitionOf('Widget', 'widgets', ['wd']),
  )
  await eventually(() => admin.create('/apis/example.com/v1/namespaces/shop/widgets', instance))
  await admin.create(`${rbac}/namespaces/shop/rolebindings`, {
    metadata: { name: 'viewer' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
    subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: impersonated.user.username }],
  })
}

const instance = { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'one' } }

const definitionOf = (kind: string, plural: string, shortNames: string[] = []) => ({
  metadata: { name: `${plural}.example.com` },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural, singular: kind.toLowerCase(), kind, shortNames },
    versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
  },
})

function deployment(name: string, replicas: number) {
  const labels = { app: name }
  return {
    metadata: { name, labels: { 'agent.gitlab.com/inventory': '42-1' } },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'none' }] } },
    },
  }
}

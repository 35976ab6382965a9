import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { runCli } from '../../src/kas/cli/cli.ts'
import { agentkAccount } from '../support/agentk-account.ts'
import { eventually } from '../support/eventually.ts'
import { Kubectl } from '../support/kubectl.ts'
import type { Identity } from '../support/kubectl-side.ts'
import { assets, skip } from '../support/kubectl-stack.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { impersonated } from '../support/stack-directory.ts'

/** What one types first, beside what kubectl answers to the same words by the same way. */

interface Case {
  /** after `kas`; `get …` is what kubectl is given, too, unless `kubectl` says otherwise */
  readonly argv: string
  readonly as?: Identity
  readonly code: number
  /** absent: as `argv`, if that is a `get` */
  readonly kubectl?: string
  /** where it is another than ours, with the reason */
  readonly kubectlCode?: readonly [code: number, why: string]
  readonly out?: RegExp
  readonly err?: RegExp
  /** both print the same lines */
  readonly isSame?: true
}

const may = 'it shows all namespaces in which one may list'
const followed = 'the agent does not follow it'
const ada = /you are gitlab:user:ada \(groups gitlab:user, .*\) and may not list /

const cases: readonly Case[] = [
  { argv: 'get pods -n shop', code: 0, out: /^ {2}NAME +VERDICT +REASON +CULPRIT +SINCE +FACTS +AGE\n. web-/ },
  { argv: 'get po -A', code: 0, out: /^ {2}NAMESPACE +NAME/ },
  { argv: 'get pod -n shop', code: 0, out: /web-/ },
  { argv: 'get Pods -n shop', code: 0, out: /web-/ },
  { argv: 'get deploy -n shop', code: 0, out: /✓ web +Healthy/ },
  { argv: 'get deployments.apps -n shop', code: 0, out: /web/ },
  { argv: 'get deployment.v1.apps -n shop', code: 0, out: /web/ },
  { argv: 'get apps/Deployment -n shop', kubectl: '', code: 0, out: /web/ },
  { argv: 'get deploy web -n shop', code: 0, out: /web/ },
  { argv: 'get deploy/web -n shop', code: 0, out: /web/ },
  { argv: 'get deploy web nope -n shop', code: 1, out: /web/, err: /deploy\/nope is not found in shop/ },
  { argv: 'get deploy/nope -n shop', code: 1, err: /deploy\/nope is not found in shop/ },
  {
    argv: 'get deploy,svc -n shop',
    code: 0,
    out: /Deployment\/web[\s\S]*Service\/web|Service\/web[\s\S]*Deployment\/web/,
  },
  { argv: 'get all -n shop', code: 0, out: /Deployment\/web/ },
  { argv: 'get rs -n shop', code: 0, out: /web-/ },
  { argv: 'get no', code: 0, out: /NAME/ },
  { argv: 'get nodes -n shop', code: 0, out: /NAME/ },
  { argv: 'get ns', code: 0, out: /shop/ },
  { argv: 'get ns shop', code: 0, out: /shop/ },
  { argv: 'get cm -n shop', code: 0, out: /kube-root-ca.crt/ },
  { argv: 'get sa -n shop', code: 0, out: /default/ },
  { argv: 'get secrets -n shop', code: 1, err: /Secret is not followed by the agent/ },
  { argv: 'get ep -n shop', code: 1, kubectlCode: [0, followed], err: /Endpoints is not followed/ },
  { argv: 'get widgets -n shop', code: 0, out: /one/ },
  { argv: 'get wd -n shop', code: 0, out: /one/ },
  { argv: 'get widgets.example.com/one -n shop', code: 0, out: /one/ },
  { argv: 'get pdos', code: 1, err: /no kind is called "pdos", or none that you may list; did you mean pods\?/ },
  { argv: 'get wdgets', code: 1, err: /did you mean widgets\?/ },
  { argv: 'get po -l app=web -n shop', code: 0, out: /web-/ },
  { argv: 'get po -l app=none -n shop', code: 0, err: /no po found in shop/ },
  { argv: 'get po -l app=in=web -n shop', code: 1, err: /"labels" is a selector/ },
  { argv: 'get po -n nowhere', code: 0, err: /no po found in nowhere/ },
  { argv: 'get po -n shop -o name', code: 0, isSame: true },
  { argv: 'get deploy,svc -n shop -o name', code: 0, isSame: true },
  { argv: 'get po -n shop -o wide', code: 0, out: /ARGO +KSTATUS +WHY/ },
  { argv: 'get po -n shop -o json', code: 0, out: /"rows": \[\n/ },
  { argv: 'get po -n shop -o yaml', code: 0, out: /^rows:\n/m },
  { argv: 'get po -n shop --sort name', kubectl: 'get po -n shop --sort-by=.metadata.name', code: 0, out: /web-/ },
  { argv: 'get events -n shop', code: 0, out: /Deployment\/web +Scaled up replica set/ },
  { argv: 'get ev -A', code: 0, out: /Scaled up/ },
  { argv: 'get', code: 2, kubectlCode: [1, 'as all commands of kas have it'], err: /KIND is missing/ },
  { argv: 'get po/x svc', code: 2, kubectlCode: [1, 'as all commands of kas have it'], err: /stands beside others/ },
  { argv: 'tree -n shop', code: 0, out: /✓ shop\/Deployment\/web {2}2\/2 ready/ },
  { argv: 'tree deploy/web -n shop', code: 0, out: /^✓ shop\/Deployment\/web .*\n└─ ✓ ReplicaSet\/web-\w+/ },
  { argv: 'tree deploy/nope -n shop', code: 1, err: /deploy\/nope is not found in shop/ },
  { argv: 'tree --environment 7/production', code: 1, err: /app.gitlab.com\/environment_slug=production/ },
  { argv: 'tree --application 42-1', code: 0, out: /Deployment\/web/ },
  { argv: 'health deploy/web -n shop', code: 0, out: /^✓ healthy \(1 healthy\)\n/ },
  { argv: 'health deploy/nope -n shop --wait 2s', code: 5, out: /○ deploy\/nope is not there/ },
  { argv: 'get po -n shop', as: 'user', code: 0, out: /web-/ },
  { argv: 'get po -n bank', as: 'user', code: 1, err: new RegExp(`${ada.source}pods in bank`) },
  { argv: 'get po -n nowhere', as: 'user', code: 1, err: new RegExp(`${ada.source}pods in nowhere`) },
  { argv: 'get po -A', as: 'user', code: 0, kubectlCode: [1, may], out: /shop +web-/ },
  { argv: 'get no', as: 'user', code: 1, err: new RegExp(`${ada.source}nodes\n`) },
  { argv: 'get widgets -n shop', as: 'user', code: 1, err: /no kind is called "widgets", or none that you may list\n/ },
  { argv: 'tree -n bank', as: 'user', code: 1, err: new RegExp(`${ada.source}anything in bank`) },
  { argv: 'tree', as: 'ci_job', code: 1, err: /you are gitlab:ci_job:901 \(.*may not list anything in any namespace/ },
  { argv: 'health -n bank', as: 'user', code: 1, err: ada },
]

t.test('what one types first', { skip, timeout: 240_000 }, async (t) => {
  const { stack, processes, admin } = await start(t)
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig: stack.kubeconfig('agent') })
  const rows: string[] = []
  for (const one of cases) {
    const { argv, as = 'agent', code, out, err, kubectlCode, isSame } = one
    const kubeconfig = stack.kubeconfig(as)
    const said = await kas(argv.split(' '), kubeconfig)
    const title = `kas ${argv}, as ${as}`
    t.equal(said.code, code, `${title}: ${said.stderr}`)
    if (out) t.match(said.stdout, out, title)
    if (err) t.match(said.stderr, err, title)
    if (code !== 0 && code < 3) t.not(said.stderr, '', title)
    const theirs = one.kubectl ?? (argv.startsWith('get') ? argv : '')
    let beside = '-'
    if (theirs !== '') {
      const exit = await kubectl.with({ kubeconfig }).run(theirs.split(' '))
      beside = `${exit.code}${kubectlCode ? ` (${kubectlCode[1]})` : ''}`
      t.equal(exit.code, kubectlCode?.[0] ?? code, `kubectl ${theirs}: ${exit.stderr}`)
      const lines = (text: string) => text.trim().split('\n').sort()
      if (isSame) t.strictSame(lines(said.stdout), lines(String(exit.stdout)), title)
    }
    rows.push(`${argv.padEnd(48)} ${as.padEnd(7)} ${said.code}  ${beside}`)
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
  t.comment([`${'kas'.padEnd(56)} code kubectl`, ...rows].join('\n'))
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

/** In this process. */
async function kas(argv: readonly string[], kubeconfig: string, stdin = '') {
  const said = { stdout: '', stderr: '' }
  const writer = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      said[name] += text
    },
  })
  const io = {
    env: { KUBECONFIG: kubeconfig },
    stdout: writer('stdout'),
    stderr: writer('stderr'),
    stdin: (async function* () {
      yield stdin
    })(),
  }
  const code = await runCli(argv, io)
  return { code, ...said }
}

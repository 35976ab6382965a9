import { join } from 'node:path'
import t from 'tap'
import type { ApiClient, KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { inventoryLabel } from '../../src/agentk/modules/gitops/manifests/annotations.ts'
import { eventually } from '../support/eventually.ts'
import { Kubectl } from '../support/kubectl.ts'
import { assets, skip } from '../support/kubectl-stack.ts'
import { manifestsFolder } from '../support/manifests.ts'
import { Processes } from '../support/processes.ts'
import { patience } from '../support/slowness.ts'
import { Stack } from '../support/stack.ts'
import { impersonated } from '../support/stack-directory.ts'

/**
 * kubectl prints the API server's warning about changes by hand, directly and through kas as the user, and does nothing
 * else otherwise than without the policy.
 */

interface Command {
  readonly args: readonly string[]
  /** manifest on the standard input */
  readonly manifest?: object
  /** kind and name of the object that the warning names; absent: no warning */
  readonly warned?: string
}

const kept = { labels: { [inventoryLabel]: '42-7', app: 'web' } }
const page = (a: string, metadata: object = kept) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'page', ...metadata },
  data: { a },
})
const rbac = 'rbac.authorization.k8s.io'
const objects: readonly object[] = [
  page('first'),
  {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', ...kept },
    spec: {
      replicas: 0,
      selector: { matchLabels: { app: 'web' } },
      template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'web', image: 'nginx:1' }] } },
    },
  },
  { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web', ...kept }, spec: { ports: [{ port: 80 }] } },
  { apiVersion: `${rbac}/v1`, kind: 'Role', metadata: { name: 'reader', ...kept }, rules: [] },
  {
    apiVersion: `${rbac}/v1`,
    kind: 'RoleBinding',
    metadata: { name: 'reader', ...kept },
    roleRef: { apiGroup: rbac, kind: 'Role', name: 'reader' },
    subjects: [{ apiGroup: rbac, kind: 'User', name: 'ada' }],
  },
]

const change = (warned: string, ...args: string[]): Command => ({ warned, args })
const harmless = (...args: string[]): Command => ({ args })

/** in this order; the namespace begins with `objects` */
const commands: readonly Command[] = [
  harmless('label', 'deployment/web', 'by=hand'),
  harmless('annotate', 'configmap/page', 'by=hand'),
  harmless('set', 'image', 'deployment/web', 'web=nginx:2', '--dry-run=server'),
  harmless('delete', 'service/web', '--dry-run=server'),
  { args: ['apply', '--server-side', '--force-conflicts', '--dry-run=server', '-f', '-'], manifest: page('x') },
  { args: ['diff', '-f', '-'], manifest: page('x') },
  harmless('rollout', 'restart', 'deployment/web'),
  harmless('scale', 'deployment/web', '--replicas=2'),
  change('Deployment web', 'set', 'image', 'deployment/web', 'web=nginx:2'),
  change('Deployment web', 'rollout', 'undo', 'deployment/web'),
  change('Deployment web', 'set', 'env', 'deployment/web', 'COLOR=red'),
  change('Deployment web', 'set', 'resources', 'deployment/web', '--limits=cpu=1'),
  change('Deployment web', 'rollout', 'pause', 'deployment/web'),
  change('Deployment web', 'patch', 'deployment/web', '-p', '{"spec":{"replicas":1}}'),
  change('Service web', 'set', 'selector', 'service/web', 'app=other'),
  change('RoleBinding reader', 'set', 'subject', 'rolebinding/reader', '--user=bob'),
  change('ConfigMap page', 'patch', 'configmap/page', '--type=merge', '-p', '{"data":{"a":"patched"}}'),
  change('ConfigMap page', 'edit', 'configmap/page'),
  { args: ['apply', '-f', '-'], manifest: page('applied'), warned: 'ConfigMap page' },
  {
    args: ['apply', '--server-side', '--force-conflicts', '-f', '-'],
    manifest: page('applied again'),
    warned: 'ConfigMap page',
  },
  { args: ['replace', '-f', '-'], manifest: page('replaced'), warned: 'ConfigMap page' },
  { args: ['replace', '--force', '-f', '-'], manifest: page('anew'), warned: 'ConfigMap page' },
  change('Service web', 'delete', 'service/web'),
]

/** result of a command, for a namespace called NAMESPACE */
interface Played {
  readonly command: string
  readonly code: number
  readonly stdout: string
  /** without the warnings of the policy */
  readonly stderr: string
  readonly warnings: readonly string[]
}

const policy = "'agentk-kept-in-git-agentk'"
const prefix = `Warning: Validation failed for ValidatingAdmissionPolicy ${policy} with binding ${policy}: `
const isWarning = (line: string) => line.startsWith(prefix)

const textOf = (title: string) => {
  const named = title.replace(' ', ' NAMESPACE/')
  return `GitOps source 42-7 keeps this object (${named}) as it is in Git, and may undo this: change it in Git`
}

t.test('kubectl, about objects that Git keeps', { skip, timeout: 240_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin } = controlPlane
  const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig })
  await stack.startAgentk()
  await stack.connected()
  const direct = new Kubectl({ processes, assets }, { kubeconfig: controlPlane.kubeconfig })
  const { username } = impersonated.user
  await direct.ok(['create', 'clusterrolebinding', 'ada', '--clusterrole=cluster-admin', `--user=${username}`])
  const sides = { direct, kas: direct.with({ kubeconfig: stack.kubeconfig('user') }) }

  const without = await playIn('without', sides.direct, admin)
  await direct.ok(['apply', '--server-side', '-f', join(manifestsFolder, 'agentk-gitops/2-warning.yaml')])
  await untilWarned(direct, admin)
  const [warned, throughKas] = await Promise.all([
    playIn('warned', sides.direct, admin),
    playIn('through-kas', sides.kas, admin),
  ])

  await t.test('each change prints the warning once, and nothing else does', async (t) => {
    for (const [i, { command, warnings }] of warned.played.entries()) {
      const title = commands[i]?.warned
      t.strictSame(warnings, title === undefined ? [] : [textOf(title)], command)
    }
    const changes = warned.played.filter(({ warnings }) => warnings.length > 0)
    t.ok(changes.length >= 12, `${changes.length} commands`)
    t.comment(warned.played.map(({ command, warnings: [text = '-'] }) => `${command}: ${text}`).join('\n'))
  })
  await t.test('through kas, as the user, it is the same', async (t) => t.strictSame(throughKas, warned))
  await t.test('without the policy nothing else differs', async (t) => {
    const silent = warned.played.map((one) => ({ ...one, warnings: [] }))
    t.strictSame({ ...warned, played: silent }, without)
  })

  await t.test('several warnings, with any characters, come through kas as they are', async (t) => {
    await admin.create('/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies', otherPolicy)
    await admin.create('/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings', {
      metadata: otherPolicy.metadata,
      spec: { policyName: otherPolicy.metadata.name, validationActions: ['Warn'] },
    })
    const more = page('0', { name: 'more', labels: { ...kept.labels, more: 'yes' } })
    await admin.create('/api/v1/namespaces/warned/configmaps', more)
    let a = 0
    const patch = async (kubectl: Kubectl) => {
      const data = JSON.stringify({ data: { a: String(++a) } })
      const args = ['patch', 'configmap/more', '--type=merge', '-p', data]
      return await kubectl.with({ namespace: 'warned' }).run(args)
    }
    await eventually(async () => (await patch(sides.direct)).stderr.includes(message))
    const [seen, expected] = [await patch(sides.kas), await patch(sides.direct)]
    t.strictSame([seen.code, seen.stderr], [0, expected.stderr])
    t.equal(seen.stderr.match(/^Warning: /gm)?.length, 2, seen.stderr)
    t.match(seen.stderr, message)
  })
})

const message = 'größer als “erlaubt” \\ "quoted", 日本語, 299 - "no header"'

/** A policy of somebody else, with a text beyond ASCII. */
const otherPolicy = {
  metadata: { name: 'other' },
  spec: {
    failurePolicy: 'Fail',
    matchConstraints: {
      objectSelector: { matchLabels: { more: 'yes' } },
      resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['configmaps'] }],
    },
    validations: [{ expression: 'false', message }],
  },
}

/** Creates the objects in a new namespace, and runs all commands. @returns results, and the objects that are left */
async function playIn(namespace: string, anywhere: Kubectl, admin: ApiClient) {
  const kubectl = anywhere.with({ namespace })
  await kubectl.ok(['create', 'namespace', namespace])
  const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects })
  await kubectl.ok(['create', '-f', '-'], { stdin })
  const untilRolled = (image: string) => {
    const isOf = ({ spec }: KubernetesObject) => spec.template.spec.containers[0].image === image
    const signal = AbortSignal.timeout(patience(20_000))
    return admin.until(`/apis/apps/v1/namespaces/${namespace}/replicasets`, isOf, signal)
  }
  await untilRolled('nginx:1')
  const played: Played[] = []
  for (const { args, manifest } of commands) {
    if (args[1] === 'undo') await untilRolled('nginx:2')
    const environment = { KUBE_EDITOR: 'sed -i s/patched/edited/' }
    const input = manifest ? { stdin: JSON.stringify(manifest) } : {}
    const { code, stdout, stderr } = await kubectl.run(args, { environment, ...input })
    const lines = stderr.replaceAll(namespace, 'NAMESPACE').split('\n')
    played.push({
      command: args.join(' '),
      code,
      stdout: args[0] === 'diff' ? '' : stdout.toString().replaceAll(namespace, 'NAMESPACE'), // has names of files
      stderr: lines.filter((line) => !isWarning(line)).join('\n'),
      warnings: lines.filter(isWarning).map((line) => line.slice(prefix.length)),
    })
  }
  const { data } = await admin.get(`/api/v1/namespaces/${namespace}/configmaps/page`)
  const { spec } = await admin.get(`/apis/apps/v1/namespaces/${namespace}/deployments/web`)
  delete spec.template.metadata.annotations // the time of the restart
  return { played, left: { data, spec } }
}

/** Changes an object of a source until the policy is in force. */
async function untilWarned(direct: Kubectl, admin: ApiClient): Promise<void> {
  await admin.create('/api/v1/namespaces/default/configmaps', page('0'))
  let a = 0
  await eventually(async () => {
    const data = JSON.stringify({ data: { a: String(++a) } })
    const { stderr } = await direct.run(['patch', 'configmap/page', '--type=merge', '-p', data])
    return stderr.startsWith(prefix)
  })
}

import { readFile, writeFile } from 'node:fs/promises'
import { Agent } from 'node:https'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { ApiClient, KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import { collectionOf } from '../agentk-account.ts'
import { eventually } from '../eventually.ts'
import { GitalyDouble } from '../gitaly/gitaly-double.ts'
import { ServedRepository } from '../gitaly/served-repository.ts'
import { GitlabDouble } from '../gitlab/gitlab-double.ts'
import { suiteWorld } from '../gitlab/gitlab-world.ts'
import { assets } from '../kubectl-stack.ts'
import { Processes } from '../processes.ts'
import { patience } from '../slowness.ts'
import { Stack } from '../stack.ts'
import {
  type AgentOfChart,
  agentsOfChart,
  bearerOf,
  configurationOf,
  directoryOf,
  forgedMode,
  forger,
  type Mode,
  modes,
  tokenOf,
} from './agents.ts'
import { ask, plain } from './requests.ts'

/** Starts a control plane that writes its audit log, kas, and an agentk for each agent; a call goes through each. */
export async function startGround(t: Test) {
  const processes = await Processes.start(t)
  const auditLogFile = join(processes.folder, 'audit.log')
  const controlPlane = new ControlPlane({ assets, parts: 'all', auditLogFile })
  t.teardown(() => controlPlane.stop())
  const agents = agentsOfChart()
  const kubeconfigOf = ({ name }: Pick<AgentOfChart, 'name'>) => join(processes.folder, `${name}.kubeconfig`)
  const unused = join(processes.folder, 'none.kubeconfig')
  const [stack] = await Promise.all([Stack.start(processes, { agentKubeconfig: unused }), controlPlane.start()])
  await stack.writeDirectory(directoryOf(agents, stack.repository.path))
  await stack.repository.push('manifests/deployer.yaml', JSON.stringify(configMap('deployer')))
  await stack.repository.push('manifests/stranger.yaml', JSON.stringify(configMap('stranger')))
  for (const agent of agents) {
    await stack.repository.push(`.gitlab/agents/${agent.name}/views.yaml`, 'follow: { exclude: [Node] }')
    await stack.repository.push(`.gitlab/agents/${agent.name}/config.yaml`, JSON.stringify(configurationOf(agent)))
  }
  await prepare(controlPlane.admin, agents)
  await Promise.all(
    agents.map(async ({ name, namespace, account, flags }) => {
      const { metadata } = await controlPlane.admin.get(`/api/v1/namespaces/${namespace}/serviceaccounts/${account}`)
      const token = controlPlane.signToken({
        account: { namespace, name: account, uid: metadata.uid },
        lifeMs: 3_600_000,
      })
      const { server, caFile } = controlPlane
      const kubeconfig = kubeconfigOf({ name })
      await writeFile(kubeconfig, kubeconfigText({ server, caFile, namespace, user: { token } }), { mode: 0o600 })
      const tokenFile = join(processes.folder, `${name}.token`)
      await writeFile(tokenFile, tokenOf(name), { mode: 0o600 })
      await stack.startAgentk({ kubeconfig, tokenFile, args: flags, environment: { POD_NAMESPACE: namespace } })
    }),
  )
  const connections = new Agent({ ca: await readFile(stack.caFile, 'utf8') })
  await Promise.all(
    agents.map((agent) =>
      eventually(
        async () => {
          // the forger's own callers are all refused
          const mode = agent.name === forger ? forgedMode : (modes[0] as Mode)
          const answer = await ask(
            { url: stack.kubernetesUrl, bearer: bearerOf(mode, agent.id), id: 'ready', connections },
            plain,
          )
          if (agent.name !== forger && answer.status !== 201)
            throw new Error(`${agent.name}: ${answer.status} ${answer.body}`)
        },
        { timeoutMs: 60_000 },
      ),
    ),
  )
  return { agents, stack, controlPlane, auditLogFile, kubeconfigOf }
}

/** Starts a kas that asks GitLab, whose configuration of the job is `{}`, with an agent of these rights. */
export async function behindGitlab(t: Test, { namespace, flags }: AgentOfChart, kubeconfig: string) {
  const processes = await Processes.start(t)
  const gitaly = await GitalyDouble.start(t, { folder: processes.folder })
  const repository = await ServedRepository.create(processes.folder)
  await repository.push({ '.gitlab/agents/prod/config.yaml': 'user_access: {}\n' })
  const world = { ...suiteWorld(), gitaly: { address: gitaly.address, token: gitaly.token } }
  const gitlab = await GitlabDouble.start(t, { world })
  const write = async (name: string, text: string) => {
    await writeFile(join(processes.folder, name), text, { mode: 0o600 })
    return join(processes.folder, name)
  }
  const secret = await write('gitlab-secret', gitlab.secret.toString('base64'))
  const configuration = {
    gitlab: { address: gitlab.address, authentication_secret_file: secret },
    directory: undefined,
  }
  const stack = await Stack.start(processes, { agentKubeconfig: kubeconfig, configuration: configuration as never })
  const tokenFile = await write('token', 'glagent-prod')
  await stack.startAgentk({ tokenFile, args: flags, environment: { POD_NAMESPACE: namespace } })
  return { url: stack.kubernetesUrl, authority: await readFile(stack.caFile, 'utf8') }
}

const configMap = (name: string) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace: 'shop' },
  data: { of: name },
})

/**
 * Creates the chart's objects, and roles that make each user visible: each may watch pods, and run a command in one.
 */
async function prepare(admin: ApiClient, agents: readonly AgentOfChart[]): Promise<void> {
  const create = (object: KubernetesObject) => admin.create(collectionOf(object), object)
  const namespaces = ['shop', 'ops', 'team-a', 'team-b', ...agents.map(({ namespace }) => namespace)]
  await Promise.all(namespaces.map((name) => create({ kind: 'Namespace', metadata: { name } })))
  const role = (name: string, rules: object[], subject: object) =>
    Promise.all([
      create({ kind: 'ClusterRole', metadata: { name }, rules }),
      create({
        kind: 'ClusterRoleBinding',
        metadata: { name },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
        subjects: [subject],
      }),
    ])
  const group = { kind: 'Group', apiGroup: 'rbac.authorization.k8s.io', name: 'system:authenticated' }
  await role(
    'seen',
    [
      { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] },
      { apiGroups: [''], resources: ['pods/exec'], verbs: ['get', 'create'] },
    ],
    group,
  )
  for (const { name, namespace, account, objects } of agents) {
    // the chart creates no account that values name as existing
    const hasAccount = objects.some(
      ({ kind, metadata }) => kind === 'ServiceAccount' && metadata.namespace === namespace,
    )
    if (!hasAccount) await create({ kind: 'ServiceAccount', metadata: { name: account, namespace } })
    for (const object of objects) await create(object)
    const bound = { kind: 'ServiceAccount', name: account, namespace }
    if (name === 'any') await role('anybody', [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }], bound)
  }
  const container = { name: 'main', image: 'none' }
  const pod = { kind: 'Pod', metadata: { name: 'web', namespace: 'shop' }, spec: { containers: [container] } }
  await eventually(() => admin.create('/api/v1/namespaces/shop/pods', pod)) // needs the account `default`
  await admin.until(
    '/api/v1/namespaces/shop/pods',
    ({ status }) => status?.phase === 'Running',
    AbortSignal.timeout(patience(60_000)),
  )
}

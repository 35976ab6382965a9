import { join } from 'node:path'
import type { Endpoint } from '../../../src/kas/command/endpoint.ts'
import { agentkAccount } from '../agentk-account.ts'
import { type KasAnswer, runKas } from '../kas-command.ts'
import { Kubectl } from '../kubectl.ts'
import { assets } from '../kubectl-stack.ts'
import { Processes, type TestProcess, type TornDown } from '../processes.ts'
import { Stack } from '../stack.ts'
import { kubeconfigEndpoint } from '../test-endpoint.ts'
import type { NodeCluster } from './node-cluster.ts'

/** Rights beyond the shipped roles: webhooks, which these leave out. */
const webhooks = { apiGroups: ['admissionregistration.k8s.io'], resources: ['*'], verbs: ['list', 'watch'] }

export interface NodesGroundOptions {
  /** folders and files of more rights of agentk, as `agentkAccount` takes them */
  readonly rights?: readonly string[]
  /** flags of agentk; default: for the names of the stack's directory */
  readonly args?: readonly string[]
  /** default true */
  readonly hasViews?: boolean
}

/** A cluster with real nodes, kas before it, and as many pods of agentk as are started. */
export class NodesGround {
  readonly cluster: NodeCluster
  readonly processes: Processes
  readonly stack: Stack
  /** kubectl at the API server itself */
  readonly kubectl: Kubectl
  /** views of a user who may list what agentk may */
  readonly endpoint: Endpoint
  readonly #pods = new Map<string, TestProcess>()
  readonly #args: readonly string[] | undefined

  private constructor(
    parts: Pick<NodesGround, 'cluster' | 'processes' | 'stack' | 'endpoint'>,
    { args }: NodesGroundOptions,
  ) {
    this.#args = args
    this.cluster = parts.cluster
    this.processes = parts.processes
    this.stack = parts.stack
    this.endpoint = parts.endpoint
    const kubeconfig = join(this.cluster.folder, 'admin.kubeconfig')
    this.kubectl = new Kubectl({ processes: this.processes, assets }, { kubeconfig })
  }

  /** Resolves when one pod of agentk leads. */
  static async start(t: TornDown, cluster: NodeCluster, options: NodesGroundOptions = {}): Promise<NodesGround> {
    const { rights = [], hasViews = true } = options
    const processes = await Processes.start(t)
    const manifests = ['agentk', 'agentk-access/cluster-wide.yaml', 'agentk-views', ...rights]
    const agentKubeconfig = await agentkAccount(cluster, join(processes.folder, 'agentk'), manifests)
    const apiVersion = 'rbac.authorization.k8s.io/v1'
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'webhooks' }
    const subjects = [{ kind: 'ServiceAccount', name: 'agentk', namespace: 'agentk' }]
    const metadata = { name: 'webhooks' }
    await cluster.create(
      { apiVersion, kind: 'ClusterRole', metadata, rules: [webhooks] },
      { apiVersion, kind: 'ClusterRoleBinding', metadata, roleRef, subjects },
    )
    const stack = await Stack.start(processes, { agentKubeconfig })
    const endpoint = await kubeconfigEndpoint(stack.kubeconfig('agent'))
    const ground = new NodesGround({ cluster, processes, stack, endpoint }, options)
    if (hasViews) await ground.turnViewsOn()
    await ground.startAgentk('agentk-0')
    await stack.connected()
    return ground
  }

  /** @param views - content of views.yaml */
  async turnViewsOn(views: object = {}): Promise<void> {
    await this.stack.repository.push('.gitlab/agents/prod/views.yaml', `${JSON.stringify(views)}\n`)
  }

  async startAgentk(pod: string): Promise<void> {
    const options = { pod, environment: { POD_NAMESPACE: 'agentk' }, ...(this.#args && { args: this.#args }) }
    this.#pods.set(pod, await this.stack.startAgentk(options))
  }

  /** Ends the pod as a crash of its node does; resolves when it has ended. */
  async killAgentk(pod: string): Promise<void> {
    const agentk = this.#pods.get(pod)
    agentk?.signal('SIGKILL')
    await agentk?.exited
  }

  /** Ends the pod as its deletion does; resolves when it has ended. */
  async stopAgentk(pod: string): Promise<void> {
    const agentk = this.#pods.get(pod)
    agentk?.signal('SIGTERM')
    await agentk?.ends()
  }

  kas(...argv: readonly string[]): Promise<KasAnswer> {
    return runKas(argv, this.stack.kubeconfig('agent'))
  }
}

import { askState, type ShownSource } from '../../../src/kas/modules/gitops/cli/state.ts'
import { eventually } from '../eventually.ts'
import type { KasAnswer } from '../kas-command.ts'
import type { TornDown } from '../processes.ts'
import { agentConfiguration, agentkFlags } from '../stack-directory.ts'
import type { NodeCluster } from './node-cluster.ts'
import { NodesGround } from './nodes-ground.ts'
import { namespaceOf } from './workloads.ts'

/** Sources of an agent on real nodes, which follow folders of its own project. */

const project = 'platform/clusters'
const deployer = { namespace: 'agentk', name: 'deployer' }
/** account that may list Pods, and not watch them */
const listing = { namespace: 'agentk', name: 'listing' }
const api = 'rbac.authorization.k8s.io'
const apiVersion = `${api}/v1`

/** Names of the sources: each follows the folder of its name, into the namespace of its name. */
export const sourceNames = ['web', 'codes', 'listing', 'broken'] as const
export type SourceName = (typeof sourceNames)[number]

const idOf = (name: SourceName) => `42-1-${name}`

/** Rights of the account that may not watch Pods, and agentk's right to act as it. */
const listingRights = [
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: listing },
  {
    apiVersion,
    kind: 'ClusterRole',
    metadata: { name: listing.name },
    rules: [
      { apiGroups: ['apps', 'batch'], resources: ['*'], verbs: ['*'] },
      { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list'] },
      { apiGroups: [''], resources: ['events', 'persistentvolumeclaims'], verbs: ['get', 'list', 'watch'] },
    ],
  },
  {
    apiVersion,
    kind: 'ClusterRoleBinding',
    metadata: { name: listing.name },
    roleRef: { apiGroup: api, kind: 'ClusterRole', name: listing.name },
    subjects: [{ kind: 'ServiceAccount', ...listing }],
  },
  {
    apiVersion,
    kind: 'Role',
    metadata: { name: 'as-listing', namespace: 'agentk' },
    rules: [{ apiGroups: [''], resources: ['serviceaccounts'], resourceNames: [listing.name], verbs: ['impersonate'] }],
  },
  {
    apiVersion,
    kind: 'RoleBinding',
    metadata: { name: 'as-listing', namespace: 'agentk' },
    roleRef: { apiGroup: api, kind: 'Role', name: 'as-listing' },
    subjects: [{ kind: 'ServiceAccount', name: 'agentk', namespace: 'agentk' }],
  },
]

export class NodesSources {
  readonly ground: NodesGround

  private constructor(ground: NodesGround) {
    this.ground = ground
  }

  /** Starts agentk with the sources, and without views. */
  static async start(t: TornDown, cluster: NodeCluster): Promise<NodesSources> {
    await cluster.create(...sourceNames.map(namespaceOf))
    const rights = ['agentk-gitops/1-agentk.yaml', 'agentk-gitops/cluster-wide.yaml']
    const mayBe = [deployer, listing].map(
      ({ namespace, name }) => `--may-impersonate=serviceaccount:${namespace}:${name}`,
    )
    const ground = await NodesGround.start(t, cluster, { rights, args: [...agentkFlags, ...mayBe], hasViews: false })
    await cluster.create(...listingRights)
    const sources = new NodesSources(ground)
    for (const name of sourceNames) await sources.push(name, namespacedMap(`of-${name}`))
    const manifest_projects = sourceNames.map((name) => ({
      id: project,
      name,
      default_namespace: name,
      paths: [{ glob: `/manifests/${name}/**/*.yaml` }],
      access_as: { service_account: name === 'listing' ? listing : deployer },
    }))
    const configuration = { ...agentConfiguration, gitops: { manifest_projects } }
    await ground.stack.repository.push('.gitlab/agents/prod/config.yaml', JSON.stringify(configuration))
    return sources
  }

  /** Pushes the file of a source: these objects are all that it wants. @returns the commit */
  async push(name: SourceName, ...objects: readonly object[]): Promise<string> {
    const documents = objects.map((one) => JSON.stringify(one)).join('\n---\n')
    return await this.pushText(name, documents)
  }

  async pushText(name: SourceName, text: string): Promise<string> {
    return await this.ground.stack.repository.push(`manifests/${name}/all.yaml`, `${text}\n`)
  }

  /** Runs `kas gitops wait` for one source. */
  wait(name: SourceName, ...args: readonly string[]): Promise<KasAnswer> {
    return this.ground.kas('gitops', 'wait', '--source', idOf(name), ...args)
  }

  async state(name: SourceName): Promise<ShownSource | undefined> {
    const { sources } = await askState(this.ground.endpoint)
    return sources.find(({ source }) => source === idOf(name))
  }

  /** Waits for a state of a source, and names the one that stayed in its place. */
  async becomes(name: SourceName, is: (source: ShownSource) => boolean, timeoutMs = 60_000): Promise<ShownSource> {
    return await eventually(
      async () => {
        const state = await this.state(name)
        if (state && is(state)) return state
        throw new Error(`${name}: ${JSON.stringify(state)}`)
      },
      { timeoutMs },
    )
  }
}

export const namespacedMap = (name: string) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name },
  data: { a: 'b' },
})

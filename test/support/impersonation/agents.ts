import { hash } from 'node:crypto'
import { join } from 'node:path'
import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { readManifest } from '../manifests.ts'
import type { Identity } from './seen.ts'

/** Agents by values of the chart, and callers by access mode. */

/** Names of values files in test/support/charts/agentk: each is an agent with the chart's output. */
export const agentNames = ['least', 'named', 'namespaces', 'existing-role', 'sources', 'listed', 'any'] as const
export type AgentName = (typeof agentNames)[number]

/** Agent whose configuration contains a name that only kas may give. */
export const forger = 'forger'

export interface AgentOfChart {
  readonly name: AgentName | typeof forger
  readonly id: number
  readonly namespace: string
  /** name of its service account */
  readonly account: string
  /** objects of the chart, in the agent's own namespace */
  readonly objects: readonly KubernetesObject[]
  /** flags of the container for impersonation */
  readonly flags: readonly string[]
  /** entries that values and flags name */
  readonly listed: { readonly callers: ReadonlySet<string>; readonly configuration: ReadonlySet<string> }
}

const chartNamespace = 'agentk'
const bound: readonly string[] = ['ServiceAccount', 'Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding']
const flagForm = /^--(callers-)?may-impersonate=(.*)$/

/** The files have helm's output (test/ground/charts.test.ts); here each agent has a namespace of its own. */
export function agentsOfChart(): AgentOfChart[] {
  const names = [...agentNames, forger] as const
  return names.map((name, i) => {
    const values = name === forger ? 'least' : name
    const rendered = readManifest(join(import.meta.dirname, `../charts/agentk/${values}.rendered.yaml`))
    const namespace = `agentk-${name}`
    const id = 101 + i
    const [deployment] = rendered.filter(({ kind }) => kind === 'Deployment')
    const { serviceAccountName, containers } = (deployment as KubernetesObject).spec.template.spec
    const flags = (containers[0].args as string[]).filter((arg) => flagForm.test(arg))
    return {
      name,
      id,
      namespace,
      account: serviceAccountName,
      objects: inNamespace(rendered, { namespace, id }),
      flags,
      listed: { callers: entriesOf(flags, 'callers-'), configuration: entriesOf(flags, undefined) },
    }
  })
}

function entriesOf(flags: readonly string[], whose: string | undefined): ReadonlySet<string> {
  return new Set(
    flags.flatMap((flag) => {
      const [, of, entry = ''] = flagForm.exec(flag) ?? []
      return of === whose ? [entry] : []
    }),
  )
}

function inNamespace(
  rendered: readonly KubernetesObject[],
  { namespace, id }: { readonly namespace: string; readonly id: number },
): KubernetesObject[] {
  const objects = structuredClone(rendered.filter(({ kind }) => bound.includes(kind)))
  const clusterRoles = objects.filter(({ kind }) => kind === 'ClusterRole').map(({ metadata }) => metadata.name)
  for (const { kind, metadata, roleRef, subjects = [], rules = [] } of objects) {
    if (metadata.namespace === chartNamespace) metadata.namespace = namespace
    for (const subject of subjects) if (subject.namespace === chartNamespace) subject.namespace = namespace
    for (const rule of rules)
      if (rule.resources.includes('leases') && rule.resourceNames) rule.resourceNames = [`agent-${id}-lock`]
    if (kind.startsWith('Cluster')) metadata.name = `${namespace}-${metadata.name}`
    if (roleRef?.kind === 'ClusterRole' && clusterRoles.includes(roleRef.name))
      roleRef.name = `${namespace}-${roleRef.name}`
  }
  return objects
}

export interface Mode {
  readonly name: string
  /** path of the project whose jobs call; absent: a user calls */
  readonly project?: string
  /** `access_as` of `ci_access`; absent: the entry has none, or there is no entry */
  readonly accessAs?: object
  /** identity that the cluster must see if agentk and RBAC allow it; undefined: agentk itself */
  readonly acts: Identity | undefined
}

const robot = { username: 'robot', groups: ['robots'] }
const account = (namespace: string, name: string) => ({
  username: `system:serviceaccount:${namespace}:${name}`,
  groups: [],
})
const impersonate = (name: string, project: string, identity: Identity): Mode => ({
  name: `impersonate ${name}`,
  project: `apps/${project}`,
  accessAs: {
    impersonate: {
      ...identity,
      ...(identity.extra ? { extra: Object.entries(identity.extra).map(([key, val]) => ({ key, val })) } : {}),
    },
  },
  acts: identity,
})

/** path of the agent's own project */
export const ownProject = 'platform/clusters'

export const modes: readonly Mode[] = [
  { name: 'agent', project: 'apps/agent', accessAs: { agent: {} }, acts: undefined },
  { name: 'agent, implicit', project: ownProject, acts: undefined },
  { name: 'no access_as', project: 'apps/plain', acts: undefined },
  impersonate('system:masters', 'masters', { username: 'x', groups: ['system:masters'] }),
  impersonate('kubeadm:cluster-admins', 'kubeadm', { username: 'x', groups: ['kubeadm:cluster-admins'] }),
  impersonate('account team-a/gitlab', 'account', account('team-a', 'gitlab')),
  impersonate('account ops/probe', 'probe', account('ops', 'probe')),
  impersonate('robot', 'robot', robot),
  impersonate('robot, uid and extra', 'robot-more', {
    ...robot,
    uid: 'robot-uid',
    extra: { 'example.com/reason': ['one'] },
  }),
  {
    name: 'user',
    acts: {
      username: 'gitlab:user:ada',
      groups: [
        'gitlab:user',
        ...['guest', 'planner', 'reporter', 'developer'].map((role) => `gitlab:project_role:1:${role}`),
      ],
    },
  },
  {
    name: 'ci_job',
    project: 'apps/web',
    accessAs: { ci_job: {} },
    acts: { username: 'gitlab:ci_job:9', groups: ['gitlab:ci_job', 'gitlab:group:8', 'gitlab:project:9'] },
  },
]

/** mode of the agent `forger` alone */
export const forgedMode: Mode = impersonate('gitlab:user:root', 'forged', {
  username: 'gitlab:user:root',
  groups: ['gitlab:user'],
})

export const tokenOf = (name: string): string => `impersonation-token-of-${name.replaceAll(/\W+/g, '-')}`

/** Returns the credentials of callers of the mode. */
export const bearerOf = (mode: Mode, agentId: number): string =>
  `${mode.project ? 'ci' : 'pat'}:${agentId}:${tokenOf(mode.name)}`

/** Returns the configuration of an agent, as JSON. */
export function configurationOf({ name }: AgentOfChart): object {
  const entries = (name === forger ? [forgedMode] : modes).flatMap(({ project, accessAs }) =>
    project === undefined || project === ownProject
      ? []
      : [{ id: project, ...(accessAs ? { access_as: accessAs } : {}) }],
  )
  const source = (own: string, serviceAccount: object) => ({
    name: own,
    id: ownProject,
    namespaces: ['shop'],
    paths: [{ glob: `manifests/${own}.yaml` }],
    access_as: { service_account: serviceAccount },
  })
  const sources = [
    source('deployer', { namespace: 'shop', name: 'deployer' }),
    source('stranger', { namespace: 'shop', name: 'stranger' }),
  ]
  return {
    ci_access: { projects: entries },
    user_access: { access_as: { user: {} }, projects: [{ id: ownProject }] },
    ...(name === 'sources' ? { gitops: { manifest_projects: sources } } : {}),
  }
}

/** Returns the directory for kas. @param repository - path of the agents' project */
export function directoryOf(agents: readonly AgentOfChart[], repository: string): object {
  const sha256 = (token: string) => hash('sha256', token)
  const jobs = [...modes, forgedMode].filter(({ project }) => project !== undefined)
  const others = jobs.filter(({ project }) => project !== ownProject)
  const idOf = (mode: Mode) => (mode.project === ownProject ? 1 : mode.name === 'ci_job' ? 9 : 20 + jobs.indexOf(mode))
  const groups = [{ id: 8, path: 'apps' }]
  return {
    projects: [
      { id: 1, path: ownProject, git: { url: repository } },
      ...others.map((mode) => ({ id: idOf(mode), path: mode.project, groups })),
    ],
    agents: agents.map(({ id, name }) => ({ id, name, project: 1, tokens: [{ sha256: sha256(tokenOf(name)) }] })),
    users: [
      {
        id: 5,
        username: 'ada',
        tokens: [{ sha256: sha256(tokenOf('user')) }],
        roles: { projects: { 1: ['developer'] } },
      },
    ],
    ci_tokens: jobs.map((mode) => ({
      sha256: sha256(tokenOf(mode.name)),
      user: 5,
      project: idOf(mode),
      job: idOf(mode),
      pipeline: 90,
    })),
  }
}

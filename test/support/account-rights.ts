import type { Kubectl } from './kubectl.ts'

/** Rights of service accounts, as `kubectl auth can-i --list` prints them. */
export class AccountRights {
  readonly #kubectl: Kubectl
  #everyones: Promise<string[]> | undefined

  constructor(kubectl: Kubectl) {
    this.#kubectl = kubectl
  }

  /** Rights beyond those of every service account. @param account - namespace and name, as `agentk:agentk` */
  async of(account: string, namespace: string): Promise<string[]> {
    this.#everyones ??= this.#list('default:stranger', 'default')
    const [own, known] = await Promise.all([this.#list(account, namespace), this.#everyones])
    return own.filter((line) => !known.includes(line)).sort()
  }

  async #list(account: string, namespace: string): Promise<string[]> {
    const as = `--as=system:serviceaccount:${account}`
    const table = await this.#kubectl.with({ namespace }).ok(['auth', 'can-i', '--list', as])
    return table.split('\n').map((line) => line.trim().replaceAll(/\s+/g, ' '))
  }
}

/** Rights to the Lease by which an agent's pods choose their leader. */
export const leaseRights = (agentId: number): string[] => [
  'leases.coordination.k8s.io [] [] [create]',
  `leases.coordination.k8s.io [] [agent-${agentId}-lock] [get update]`,
]

const extraKeys = [
  ...['id', 'config_project_id', 'username', 'access_type', 'project_id', 'ci_pipeline_id', 'ci_job_id'],
  ...['environment_slug', 'environment_tier'],
]
const extraRights = extraKeys.map(
  (key) => `userextras.authentication.k8s.io/agent.gitlab.com/${key} [] [] [impersonate]`,
)

/** Rights to act as any user, and as any of these groups, or of all groups. */
export function impersonationRights(groups?: readonly string[]): string[] {
  const resources = groups ? ['users'] : ['users', 'groups']
  return [
    ...resources.map((resource) => `${resource} [] [] [impersonate]`),
    ...(groups ?? []).map((group) => `groups [] [${group}] [impersonate]`),
    ...extraRights,
  ]
}

/** Rights to find other replicas by a Service. */
export const discoveryRights = (service: string): string[] => [
  `endpoints [] [${service}] [list watch]`,
  'endpointslices.discovery.k8s.io [] [] [list watch]',
]

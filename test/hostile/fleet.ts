import { stringify } from 'yaml'
import { createProjectRepository } from '../../dev/start/project-repository.ts'
import { tokenHash } from '../../src/lib/token-hash.ts'
import { newToken } from './new-token.ts'
import type { Fleet, FleetAgent } from './stage.ts'

/** agents of each half of the fleet */
const agents = 60
const evilGroup = { id: 8, path: 'evil' }
const job = { project: 250, path: 'evil/jobs' }
const [firstOfTenant, firstOfProjects, firstProject] = [1000, 2000, 300]

const halves = {
  tenant: Array.from({ length: agents }, (_, i) => ({ id: firstOfTenant + i, name: `fleet-${i}`, project: 2 })),
  projects: Array.from({ length: agents }, (_, i) => {
    return { id: firstOfProjects + i, name: `spread-${i}`, project: firstProject + i }
  }),
}
const all = [...halves.tenant, ...halves.projects]

/** Many agents of one tenant, and as many of projects of their own, which one CI job may use. */
export class EvilFleet {
  readonly #tokens = new Map(all.map(({ id }) => [id, newToken()]))
  readonly #jobToken = newToken()

  /** @param userToken - token of the tenant's user, who may use the first half */
  fleet(userToken: string): Fleet {
    const tokensOf = (half: readonly { readonly id: number }[]): readonly FleetAgent[] =>
      half.map(({ id }) => ({ id, token: this.#tokens.get(id) as string }))
    return { tenant: tokensOf(halves.tenant), projects: tokensOf(halves.projects), userToken, jobToken: this.#jobToken }
  }

  /** Files of the agents of the evil tenant's own project, by path. */
  get ownFiles(): Readonly<Record<string, string>> {
    const access = stringify({ user_access: { access_as: { agent: {} }, projects: [{ id: 'evil/clusters' }] } })
    return Object.fromEntries(halves.tenant.map(({ name }) => [pathOf(name), access]))
  }

  /**
   * @param git - path of the repository that all projects of the second half share. @param user - user who started the
   * job
   */
  async add(
    directory: Record<'projects' | 'agents' | 'ci_tokens', object[]>,
    git: string,
    user: number,
  ): Promise<void> {
    const access = stringify({ ci_access: { projects: [{ id: job.path }] } })
    await createProjectRepository(git, Object.fromEntries(halves.projects.map(({ name }) => [pathOf(name), access])))
    directory.projects.push({ id: job.project, path: job.path, groups: [evilGroup] })
    for (const { project } of halves.projects) {
      const groups = [{ id: project + 1000, path: `spread-${project}` }]
      directory.projects.push({ id: project, path: `spread-${project}/clusters`, groups, git: { url: git } })
    }
    for (const { id, name, project } of all)
      directory.agents.push({ id, name, project, tokens: [{ sha256: tokenHash(this.#tokens.get(id) as string) }] })
    const sha256 = tokenHash(this.#jobToken)
    directory.ci_tokens.push({ sha256, user, project: job.project, job: 9000, pipeline: 900 })
  }
}

const pathOf = (name: string) => `.gitlab/agents/${name}/config.yaml`

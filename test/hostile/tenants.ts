import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { createProjectRepository } from '../../dev/start/project-repository.ts'
import { agent, files, replicaFiles } from '../../dev/start/settings.ts'
import { tokenHash } from '../../src/lib/token-hash.ts'
import { EvilFleet } from './fleet.ts'
import { newToken } from './new-token.ts'
import type { SlowGitlab, ToldWorld } from './slow-gitlab.ts'
import type { Fleet, Neighbour, Tenant } from './stage.ts'

/** The keys of the directory file that the tests write. */
type Directory = Record<'projects' | 'agents' | 'users' | 'ci_tokens', object[]>

export const evilId = 43
/** an agent of a good tenant that is not connected yet */
export const newcomerId = 44
/** the newcomer's own project; a hook announces pushes to it */
export const newcomerProject = 3

/** users of the good agent beside the good tenant */
const colleagues = 20
const neighbourTokens = 2
const jobProjects = 40
const goodGroup = { id: 7, path: 'demo' }
const [firstColleagueId, neighbourId, firstProjectId] = [21, 8, 101]

/** Configuration of the good agent: the default, and access for jobs of all projects of the group. */
export const goodConfiguration = stringify({
  ci_access: { groups: [{ id: goodGroup.path }] },
  user_access: { access_as: { agent: {} }, projects: [{ id: agent.project.path }] },
})

/** Tenants beside the good tenant of `npm start`: rights, tokens, and a project each with its repository. */
export class Tenants {
  /** path of the evil tenant's repository, once it is written */
  evilRepository = ''
  readonly newcomerToken = newToken()
  /** secret of hooks for the newcomer's project */
  readonly hookSecret = newToken()
  readonly #fleet = new EvilFleet()
  readonly #evilToken = newToken()
  readonly #evilUserToken = newToken()
  readonly #colleagueTokens = newTokens(colleagues)
  readonly #neighbourTokens = newTokens(neighbourTokens)
  readonly #jobTokens = newTokens(jobProjects)

  get evil(): Tenant {
    return { agentToken: this.#evilToken, userCredential: `pat:${evilId}:${this.#evilUserToken}` }
  }

  /** Credentials of users of the good agent. */
  get colleagues(): readonly string[] {
    return this.#colleagueTokens.map((token) => `pat:${agent.id}:${token}`)
  }

  get fleet(): Fleet {
    return this.#fleet.fleet(this.#evilUserToken)
  }

  get neighbour(): Neighbour {
    return {
      userCredentials: this.#neighbourTokens.map((token) => `pat:${agent.id}:${token}`),
      jobCredentials: this.#jobTokens.map((token) => `ci:${agent.id}:${token}`),
    }
  }

  /** Writes them into the directory file of npm start. */
  async write(folder: string): Promise<void> {
    const path = join(folder, files.directory)
    const directory = parse(await readFile(path, 'utf8')) as Directory
    const [evilGit, newcomerGit] = [join(folder, 'evil.git'), join(folder, 'newcomer.git')]
    this.evilRepository = evilGit
    const access = (id: string) => stringify({ user_access: { access_as: { agent: {} }, projects: [{ id }] } })
    const evilFiles = { '.gitlab/agents/evil/config.yaml': access('evil/clusters'), ...this.#fleet.ownFiles }
    await createProjectRepository(evilGit, evilFiles)
    await createProjectRepository(newcomerGit, { '.gitlab/agents/newcomer/config.yaml': access(agent.project.path) })
    const hookSecretFile = join(folder, 'hook.secret')
    await writeFile(hookSecretFile, this.hookSecret, { mode: 0o600 })
    const [evilGroups, goodGroups] = [[{ id: 8, path: 'evil' }], [goodGroup]]
    directory.projects.push(
      { id: 2, path: 'evil/clusters', groups: evilGroups, git: { url: evilGit } },
      {
        id: newcomerProject,
        path: 'demo/newcomer',
        groups: goodGroups,
        git: { url: newcomerGit, hook_secret_file: hookSecretFile },
      },
    )
    directory.agents.push(
      { id: evilId, name: 'evil', project: 2, tokens: [{ sha256: tokenHash(this.#evilToken) }] },
      { id: newcomerId, name: 'newcomer', project: 3, tokens: [{ sha256: tokenHash(this.newcomerToken) }] },
    )
    const tokens = [{ sha256: tokenHash(this.#evilUserToken) }]
    directory.users.push({ id: 6, username: 'eve', tokens, roles: { projects: { 2: ['maintainer'] } } })
    this.#addUsers(directory)
    await this.#fleet.add(directory, join(folder, 'fleet.git'), 6)
    await writeFile(path, stringify(directory), { mode: 0o600 })
  }

  /** Adds users of the good agent: colleagues, and the neighbour, who has more tokens and jobs. */
  #addUsers({ projects, users, ci_tokens: jobs }: Directory): void {
    const roles = { projects: { [agent.project.id]: ['developer'] } }
    const user = (id: number, username: string, tokens: readonly string[]) =>
      users.push({ id, username, tokens: tokens.map((token) => ({ sha256: tokenHash(token) })), roles })
    for (const [i, token] of this.#colleagueTokens.entries()) user(firstColleagueId + i, `colleague-${i}`, [token])
    user(neighbourId, 'nell', this.#neighbourTokens)
    for (const [i, token] of this.#jobTokens.entries()) {
      const project = firstProjectId + i
      projects.push({ id: project, path: `${goodGroup.path}/nell-${i}`, groups: [goodGroup] })
      jobs.push({ sha256: tokenHash(token), user: neighbourId, project, job: 1000 + i, pipeline: 100 + i })
    }
  }

  /** Adds them to a GitLab, with all entries of npm start. */
  async tell(gitlab: SlowGitlab, folder: string): Promise<void> {
    const read = async (name: string) => (await readFile(join(folder, name), 'utf8')).trim()
    const [goodToken, goodUser] = [await read(files.agentToken), (await read(files.userHeader)).replace(/^.*:/, '')]
    const access = (id: string) => stringify({ user_access: { access_as: { agent: {} }, projects: [{ id }] } })
    const projects: ToldWorld['projects'] = [
      { ...agent.project, groups: [goodGroup] },
      { id: 2, path: 'evil/clusters', groups: [{ id: 8, path: 'evil' }] },
    ]
    const good = { project: agent.project.id, configuration: access(agent.project.path) }
    const agents: ToldWorld['agents'] = [
      { id: agent.id, name: agent.name, tokens: [goodToken], ...good },
      { id: newcomerId, name: 'newcomer', tokens: [this.newcomerToken], ...good },
      { id: evilId, name: 'evil', project: 2, tokens: [this.#evilToken], configuration: access('evil/clusters') },
    ]
    const user = { sessions: [], roles: {} }
    const users: ToldWorld['users'] = [
      {
        ...user,
        id: 5,
        username: 'ada',
        personalAccessTokens: [goodUser],
        roles: { [agent.project.id]: 'maintainer' },
      },
      { ...user, id: 6, username: 'eve', personalAccessTokens: [this.#evilUserToken], roles: { 2: 'maintainer' } },
    ]
    await gitlab.tell({ projects, agents, users })
    for (const name of ['kas-0', 'kas-1', 'kas-2']) await askGitlab(gitlab, folder, name)
  }
}

/** Replaces the directory file in a replica's configuration by the address of GitLab. */
async function askGitlab(gitlab: SlowGitlab, folder: string, name: string): Promise<void> {
  const path = join(folder, replicaFiles(name).configuration)
  const { directory: _, ...configuration } = parse(await readFile(path, 'utf8')) as Record<string, object>
  const secret = join(folder, 'gitlab.secret')
  await writeFile(secret, gitlab.secret, { mode: 0o600 })
  const known = { ...configuration, gitlab: { address: gitlab.address, authentication_secret_file: secret } }
  await writeFile(path, stringify(known), { mode: 0o600 })
}

const newTokens = (length: number) => Array.from({ length }, newToken)

import type { AgentId } from '../../../call/call.ts'
import { type ConfigWarning, parseConfig, unknownKeyHints } from '../../../lib/config.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Agent } from '../../agent.ts'
import type { RepositoryAddress } from '../../repositories/repository-url.ts'
import type { AgentEnvironment } from '../local-directory.ts'
import { type DirectoryTree, decisiveKeys, directorySchema } from './directory-schema.ts'
import { higherRole, type RoleName } from './roles.ts'

export interface Group {
  readonly id: bigint
  readonly path: string
}

export interface Project {
  readonly id: bigint
  readonly path: string
  /** its own group and all above it, nearest first */
  readonly groups: readonly Group[]
  readonly git?: RepositoryAddress | undefined
}

export interface User {
  readonly id: bigint
  readonly username: string
  /** the highest role by id of the project or group, as written, without inherited roles */
  readonly projectRoles: ReadonlyMap<bigint, RoleName>
  readonly groupRoles: ReadonlyMap<bigint, RoleName>
}

export interface Job {
  readonly user: User
  readonly project: Project
  readonly job: { readonly id: bigint }
  readonly pipeline: { readonly id: bigint }
  readonly environment?: { readonly slug: string; readonly tier: string; readonly name?: string | undefined }
}

/** A token's owner and end. */
export interface TokenEntry<Owner> {
  readonly hash: string
  readonly owner: Owner
  readonly name?: string | undefined
  /** milliseconds since 1970; from then on the token is invalid */
  readonly expiresAt?: number | undefined
}

/** The directory file, parsed and indexed. */
export interface DirectoryContents {
  readonly projects: ReadonlyMap<bigint, Project>
  /** by path in lower case */
  readonly projectsByPath: ReadonlyMap<string, Project>
  readonly groupsByPath: ReadonlyMap<string, Group>
  readonly agents: ReadonlyMap<bigint, Agent>
  /** projects beside its own that an agent may read, by agent */
  readonly reads: ReadonlyMap<bigint, readonly Project[]>
  /** by hash */
  readonly agentTokens: ReadonlyMap<string, TokenEntry<Agent>>
  readonly userTokens: ReadonlyMap<string, TokenEntry<User>>
  readonly jobTokens: ReadonlyMap<string, TokenEntry<Job>>
  readonly environments: ReadonlyMap<AgentId, readonly AgentEnvironment[]>
}

/**
 * Parses the text of a directory file; `file` names it in errors.
 *
 * @throws KasError SETTINGS_INVALID with every problem
 */
export function parseDirectory(
  file: string,
  text: string,
): { contents: DirectoryContents; warnings: readonly ConfigWarning[] } {
  if (text.trim() === '') {
    throw new KasError({
      code: 'SETTINGS_INVALID',
      file,
      problems: ['found nothing, allowed: {} if nobody has access'],
    })
  }
  const { value, warnings } = parseConfig(file, text, directorySchema, { decisive: decisiveKeys })
  const indexing = new Indexing()
  const contents = indexing.contents(value)
  const { problems } = indexing
  if (problems.length > 0) {
    throw new KasError({ code: 'SETTINGS_INVALID', file, problems, hints: unknownKeyHints(warnings) })
  }
  return { contents, warnings: [...warnings, ...unknownRoleIds(value, contents)] }
}

/** Warns of roles in projects or groups that no project names: such a role grants nothing. */
function unknownRoleIds(tree: DirectoryTree, contents: DirectoryContents): ConfigWarning[] {
  const groupIds = new Set([...contents.groupsByPath.values()].map((group) => group.id))
  const unknown = (kind: string, at: string, ids: object, isKnown: (id: bigint) => boolean) =>
    Object.keys(ids)
      .filter((id) => !isKnown(BigInt(id)))
      .map(
        (id): ConfigWarning => ({ kind: 'unused', key: `${at}.roles.${kind}.${id}`, hint: 'no project names this id' }),
      )
  return tree.users.flatMap((user, i) => [
    ...unknown('projects', `users[${i}]`, user.roles.projects, (id) => contents.projects.has(id)),
    ...unknown('groups', `users[${i}]`, user.roles.groups, (id) => groupIds.has(id)),
  ])
}

/** Builds the maps and collects contradictions. */
class Indexing {
  readonly problems: string[] = []

  contents(tree: DirectoryTree): DirectoryContents {
    const { projects, projectsByPath, groupsByPath } = this.#projects(tree)
    const { agents, reads, agentTokens } = this.#agents(tree, projects)
    const { users, userTokens } = this.#users(tree)
    const jobTokens = this.#jobs(tree, users, projects)
    const environments = this.#environments(tree, agents, projects)
    return { projects, projectsByPath, groupsByPath, agents, reads, agentTokens, userTokens, jobTokens, environments }
  }

  #projects(tree: DirectoryTree) {
    const projects = new Map<bigint, Project>()
    const projectsByPath = new Map<string, Project>()
    const groupsByPath = new Map<string, Group>()
    const groupsById = new Map<bigint, Group>()
    for (const [i, { id, path, groups, git }] of tree.projects.entries()) {
      const known = groups.map((group, j) =>
        this.#group(group, `projects[${i}].groups[${j}]`, { groupsByPath, groupsById }),
      )
      const nearestFirst = known.sort((a, b) => b.path.split('/').length - a.path.split('/').length)
      const project = { id: BigInt(id), path, groups: nearestFirst, git: git && addressOf(git) }
      this.#add(projects, project.id, project, `projects[${i}].id: found ${id}`)
      this.#add(projectsByPath, path.toLowerCase(), project, `projects[${i}].path: found ${path}`)
    }
    return { projects, projectsByPath, groupsByPath }
  }

  #group(
    group: { id: number; path: string },
    at: string,
    known: { groupsByPath: Map<string, Group>; groupsById: Map<bigint, Group> },
  ): Group {
    const { groupsByPath, groupsById } = known
    const key = group.path.toLowerCase()
    const entry = { id: BigInt(group.id), path: group.path }
    const byPath = groupsByPath.get(key) ?? entry
    const byId = groupsById.get(entry.id) ?? entry
    if (byPath.id !== entry.id || byId.path.toLowerCase() !== key) {
      this.problems.push(
        `${at}: found id ${group.id} with path ${group.path}, allowed: one id for one path in the whole file`,
      )
    }
    groupsByPath.set(key, byPath)
    groupsById.set(entry.id, byId)
    return entry
  }

  #agents(tree: DirectoryTree, projects: ReadonlyMap<bigint, Project>) {
    const agents = new Map<bigint, Agent>()
    const names = new Map<string, Agent>()
    const readsOf = new Map<bigint, readonly Project[]>()
    const agentTokens = new Map<string, TokenEntry<Agent>>()
    for (const [i, { id, name, project: projectId, reads, tokens }] of tree.agents.entries()) {
      const project = this.#known(projects, projectId, `agents[${i}].project`, 'projects')
      if (!project) continue
      const agent = { id: BigInt(id) as AgentId, name, project: { id: project.id, path: project.path } }
      this.#add(agents, agent.id, agent, `agents[${i}].id: found ${id}`)
      this.#add(names, `${projectId} ${name}`, agent, `agents[${i}].name: found ${name} in project ${projectId}`)
      this.#tokens(agentTokens, tokens, agent, `agents[${i}].tokens`)
      const known = reads.map((read, j) => this.#known(projects, read, `agents[${i}].reads[${j}]`, 'projects'))
      readsOf.set(
        agent.id,
        known.filter((each) => each !== undefined),
      )
    }
    return { agents, reads: readsOf, agentTokens }
  }

  #users(tree: DirectoryTree) {
    const users = new Map<bigint, User>()
    const names = new Map<string, User>()
    const userTokens = new Map<string, TokenEntry<User>>()
    for (const [i, { id, username, tokens, roles }] of tree.users.entries()) {
      const user = {
        id: BigInt(id),
        username,
        projectRoles: highest(roles.projects),
        groupRoles: highest(roles.groups),
      }
      this.#add(users, user.id, user, `users[${i}].id: found ${id}`)
      this.#add(names, username.toLowerCase(), user, `users[${i}].username: found ${username}`)
      this.#tokens(userTokens, tokens, user, `users[${i}].tokens`)
    }
    return { users, userTokens }
  }

  #jobs(tree: DirectoryTree, users: ReadonlyMap<bigint, User>, projects: ReadonlyMap<bigint, Project>) {
    const jobTokens = new Map<string, TokenEntry<Job>>()
    for (const [i, entry] of tree.ci_tokens.entries()) {
      const user = this.#known(users, entry.user, `ci_tokens[${i}].user`, 'users')
      const project = this.#known(projects, entry.project, `ci_tokens[${i}].project`, 'projects')
      if (!user || !project) continue
      const environment = entry.environment ? { environment: entry.environment } : {}
      const job = {
        user,
        project,
        job: { id: BigInt(entry.job) },
        pipeline: { id: BigInt(entry.pipeline) },
        ...environment,
      }
      this.#tokens(jobTokens, [entry], job, 'ci_tokens', i)
    }
    return jobTokens
  }

  #environments(tree: DirectoryTree, agents: ReadonlyMap<bigint, Agent>, projects: ReadonlyMap<bigint, Project>) {
    const environments = new Map<AgentId, AgentEnvironment[]>()
    const keys = new Map<string, string>()
    for (const [i, { project, slug, on }] of tree.environments.entries()) {
      const key = `${project}/${slug}`
      this.#known(projects, project, `environments[${i}].project`, 'projects')
      this.#add(keys, key, key, `environments[${i}].slug: found ${slug} of project ${project}`)
      for (const [j, { agent: agentId, namespace = '', selector }] of on.entries()) {
        const agent = this.#known(agents, agentId, `environments[${i}].on[${j}].agent`, 'agents')
        if (!agent) continue
        const its = environments.get(agent.id) ?? []
        environments.set(agent.id, its)
        its.push({ key, namespace, selector })
      }
    }
    return environments
  }

  #tokens<Owner>(
    map: Map<string, TokenEntry<Owner>>,
    tokens: readonly { name?: string | undefined; sha256?: unknown; expires?: string | undefined }[],
    owner: Owner,
    at: string,
    first = 0,
  ): void {
    for (const [i, { name, sha256, expires }] of tokens.entries()) {
      const hash = String(sha256).toLowerCase()
      const entry = { hash, owner, name, expiresAt: expires === undefined ? undefined : Date.parse(expires) }
      this.#add(map, hash, entry, `${at}[${first + i}].sha256: found a hash`)
    }
  }

  #add<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, found: string): void {
    if (map.has(key)) this.problems.push(`${found} a second time, allowed: each once`)
    else map.set(key, value)
  }

  #known<Value>(map: ReadonlyMap<bigint, Value>, id: number, at: string, list: string): Value | undefined {
    const value = map.get(BigInt(id))
    if (!value) this.problems.push(`${at}: found ${id}, allowed: the id of one of ${list}`)
    return value
  }
}

function addressOf(git: NonNullable<DirectoryTree['projects'][number]['git']>): RepositoryAddress {
  return {
    url: String(git.url),
    credentialsFile: git.credentials_file,
    defaultBranch: git.default_branch,
    pollMs: git.poll_period,
    hookSecretFile: git.hook_secret_file,
  }
}

function highest(roles: Readonly<Record<string, readonly RoleName[]>>): ReadonlyMap<bigint, RoleName> {
  const entries = Object.entries(roles).map(([id, names]) => [BigInt(id), names.reduce(higherRole, undefined)] as const)
  return new Map(entries.filter((entry): entry is [bigint, RoleName] => entry[1] !== undefined))
}

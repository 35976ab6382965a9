import { parse } from 'yaml'
import {
  type GitlabAgent,
  type GitlabJob,
  type GitlabProject,
  type GitlabUser,
  type GitlabWorld,
  roles,
} from './gitlab-world.ts'

/** Rails' decisions, from the agents' own files (doc/reference/gitlab-contract.md 2.3, 2.4, 4.2). */

interface Entry {
  readonly id: string
  readonly environments?: readonly string[]
  readonly [key: string]: unknown
}
interface AgentFile {
  readonly ci_access?: { readonly projects?: readonly Entry[]; readonly groups?: readonly Entry[] }
  readonly user_access?: {
    readonly access_as?: Readonly<Record<string, unknown>>
    readonly projects?: readonly Entry[]
  }
}

export function allowedAgents(world: GitlabWorld, job: GitlabJob, options: { rolesInProject: boolean }) {
  const project = projectOf(world, job.project)
  const user = world.users.find(({ id }) => id === job.user) as GitlabUser
  const role = user.roles[project.id]
  const allowed = world.agents.flatMap((agent) => {
    const entry = closestEntry(agent, project)
    if (!entry || !passes(entry, job)) return []
    const { id: _, ...configuration } = entry
    return [{ id: agent.id, config_project: { id: agent.project, name: 'x' }, configuration }]
  })
  const { environment } = job
  return {
    allowed_agents: allowed,
    job: { id: job.id },
    pipeline: { id: job.pipeline },
    project: { id: project.id, groups: project.groups.map(({ id }) => ({ id })) },
    user: {
      id: user.id,
      username: user.username,
      ...(options.rolesInProject ? { roles_in_project: role ? upTo(role) : [] } : {}),
    },
    ...(environment ? { environment: { slug: environment.slug, tier: environment.tier } } : {}),
  }
}

/** Returns the closest entry: the project's, the agent's own project, groups from the nearest up. */
function closestEntry(agent: GitlabAgent, project: GitlabProject): Entry | undefined {
  const { ci_access } = fileOf(agent)
  const named = (entries: readonly Entry[] | undefined, path: string) =>
    entries?.find(({ id }) => id.toLowerCase() === path.toLowerCase())
  const own = named(ci_access?.projects, project.path)
  if (own) return own
  if (agent.project === project.id) return { id: project.path }
  return project.groups.map(({ path }) => named(ci_access?.groups, path)).find(Boolean)
}

function passes({ environments }: Entry, { environment }: GitlabJob): boolean {
  if (!environments) return true
  const matches = (pattern: string) => new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(environment?.name ?? '')
  return environment !== undefined && environments.some(matches)
}

/** Returns the user's access; undefined: forbidden. */
export function proxyUser(world: GitlabWorld, agent: GitlabAgent, user: GitlabUser) {
  const { user_access } = fileOf(agent)
  const [kind, ...others] = Object.keys(user_access?.access_as ?? {})
  if (!kind || others.length > 0) return undefined
  const paths = (user_access?.projects ?? []).map(({ id }) => id.toLowerCase())
  const held = world.projects.flatMap(({ id, path }) => {
    const role = user.roles[id]
    if (!role || !paths.includes(path.toLowerCase()) || roles.indexOf(role) < roles.indexOf('developer')) return []
    return [{ id, roles: upTo(role) }]
  })
  if (held.length === 0) return undefined
  return {
    agent: { id: agent.id, config_project: { id: agent.project } },
    user: { id: user.id, username: user.username },
    access_as: { [kind]: kind === 'user' ? { projects: held, groups: [] } : {} },
  }
}

export function projectOf(world: GitlabWorld, id: number): GitlabProject {
  return world.projects.find((project) => project.id === id) as GitlabProject
}

function fileOf(agent: GitlabAgent): AgentFile {
  return (parse(agent.configuration) ?? {}) as AgentFile
}

function upTo(role: (typeof roles)[number]): readonly string[] {
  return roles.slice(0, roles.indexOf(role) + 1)
}

import * as z from 'zod'
import type { AgentId } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import { isKasExtraKey, isKasName } from '../../../lib/impersonated-names.ts'
import type { Impersonation } from '../../../proto/http/http-message.ts'
import type { JobGrant, UserCredential, UserGrant } from '../directory.ts'
import type { Turn } from './gitlab-call-limit.ts'
import type { GitlabClient } from './gitlab-client.ts'
import { id, list, name, type ReadableList, readableList, text, withId } from './read-answer.ts'

/** GitLab's answers about the permissions of jobs and users for an agent. */

const jobPath = '/job/allowed_agents'

/** GitLab leaves out no value here; upstream accepts a missing one as empty. */
const optionalText = text.nullish().transform((value) => value ?? '')

const jobSchema = z.object({
  allowed_agents: readableList(
    z.object({
      id,
      config_project: withId,
      /** parsed when this agent is asked for: an invalid one does not affect the others */
      configuration: z.unknown().optional(),
    }),
  ),
  job: withId,
  pipeline: withId,
  project: z.object({ id, groups: readableList(withId).nullish() }),
  user: z.object({ id, username: name }),
  environment: z.object({ slug: optionalText, tier: optionalText }).nullish(),
})

type JobAnswer = z.output<typeof jobSchema>

/** Agents that a CI job may use, and the job's identity (doc/reference/gitlab-contract.md 2.4). */
export interface JobAgents extends Pick<JobAnswer, 'job' | 'pipeline' | 'user' | 'environment'> {
  readonly allowedAgents: JobAnswer['allowed_agents']['members']
  readonly project: JobGrant['project']
}

const names = list(name)
const impersonate = z.object({
  username: name,
  groups: names.nullish(),
  uid: text.nullish(),
  extra: list(z.object({ key: name, val: names.refine((values) => values.length > 0) })).nullish(),
})

/** Called with the entries of an answer that kas cannot read: they grant nothing. */
export type LeftOutListener = (leftOut: { path: string; list: string; count: number; first: string }) => void

/**
 * Asks for the agents of a job.
 *
 * @throws KasError GITLAB_STATUS, GITLAB_UNREACHABLE, GITLAB_ANSWER_INVALID, GITLAB_BUSY, CREDENTIAL_NOT_CHECKED
 */
export async function askJobAgents(
  { client, onLeftOut }: { client: Pick<GitlabClient, 'ask'>; onLeftOut: LeftOutListener },
  { jobToken, turn }: { jobToken: string; turn: Turn },
  signal: AbortSignal,
): Promise<JobAgents> {
  const headers = { 'Job-Token': jobToken }
  const call = { method: 'GET', path: jobPath, headers, signed: false, ...turn, repeatable: true } as const
  const { allowed_agents, project, ...answer } = await client.ask(call, jobSchema, signal)
  const read = <Member>(list: string, given: ReadableList<Member>) => membersOf(given, jobPath, list, onLeftOut)
  return {
    ...answer,
    allowedAgents: read('allowed_agents', allowed_agents),
    project: { id: project.id, groups: project.groups ? read('project.groups', project.groups) : [] },
  }
}

function membersOf<Member>(
  { members, leftOut }: ReadableList<Member>,
  path: string,
  list: string,
  onLeftOut: LeftOutListener,
): readonly Member[] {
  if (leftOut) onLeftOut({ path, list, ...leftOut })
  return members
}

/**
 * Returns the job's permission for one agent.
 *
 * @throws KasError AGENT_NOT_ALLOWED, IMPERSONATION_UNKNOWN
 */
export function jobGrantOf(agents: JobAgents, agentId: AgentId): JobGrant {
  const agent = agents.allowedAgents.find((one) => one.id === agentId)
  if (!agent) throw new KasError({ code: 'AGENT_NOT_ALLOWED' })
  const { job, pipeline, project, user, environment } = agents
  return {
    accessAs: accessAs(agent.configuration),
    configProjectId: agent.config_project.id,
    user,
    job,
    pipeline,
    project,
    environment: environment ?? undefined,
  }
}

/**
 * Parses the identity that a configuration grants. No configuration, `{}` and `agent` grant the agent's own. An unknown
 * identity is refused, never taken for the agent's (doc/reference/gitlab-contract.md 9.1 no. 13).
 */
function accessAs(configuration: unknown): JobGrant['accessAs'] {
  const entry = tree(configuration ?? {}, 'configuration')
  const [given, ...others] = Object.entries(tree(entry.access_as ?? {}, 'access_as'))
  if (!given) return { as: 'agent' }
  const [kind, value] = given
  if (others.length > 0) throw unknown([given, ...others].map(([name]) => name).join(' and '))
  if (kind === 'agent' || kind === 'ci_job') return { as: kind }
  if (kind !== 'impersonate') throw unknown(kind)
  const parsed = impersonate.safeParse(value)
  if (!parsed.success) throw unknown('impersonate, of a form that is not known')
  const identity = impersonation(parsed.data)
  const kasName =
    [identity.username, ...identity.groups].find(isKasName) ?? identity.extra.map(({ key }) => key).find(isKasExtraKey)
  if (kasName !== undefined) throw unknown(`impersonate, with ${kasName}, which kas alone may say`)
  return { as: 'impersonate', impersonate: identity }
}

function impersonation({ username, groups, uid, extra }: z.output<typeof impersonate>): Impersonation {
  return { username, groups: groups ?? [], uid: uid ?? '', extra: extra ?? [] }
}

function tree(value: unknown, name: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw unknown(`a ${name} that is no block`)
  return value as Record<string, unknown>
}

const userPath = '/internal/kubernetes/authorize_proxy_user'

const userSchema = z.object({
  agent: z.object({ id, config_project: withId }),
  user: z.object({ id, username: name }),
  access_as: z.record(z.string(), z.unknown()),
})

/** GitLab's permission for a user of an agent (doc/reference/gitlab-contract.md 2.3). */
export type UserAccess = z.output<typeof userSchema>

const holdings = readableList(z.object({ id, roles: names }))
  .nullish()
  .transform((all) => all ?? { members: [] })
const asUser = z.object({ projects: holdings, groups: holdings })

/**
 * Asks for a user's permission.
 *
 * @throws KasError GITLAB_STATUS, GITLAB_UNREACHABLE, GITLAB_ANSWER_INVALID, GITLAB_BUSY, CREDENTIAL_NOT_CHECKED
 */
export async function askUserAccess(
  client: Pick<GitlabClient, 'ask'>,
  { agentId, credential, turn }: { agentId: AgentId; credential: UserCredential; turn: Turn },
  signal: AbortSignal,
): Promise<UserAccess> {
  const body = {
    agent_id: String(agentId), // proto JSON writes 64-bit numbers as text, and leaves out empty values
    access_type: credential.type,
    access_key: credential.key,
    ...(credential.type === 'session_cookie' ? { csrf_token: credential.csrfToken } : {}),
  }
  const call = { method: 'POST', path: userPath, body, ...turn, repeatable: true } as const
  const access = await client.ask(call, userSchema, signal)
  if (access.agent.id === agentId) return access
  throw new KasError({ code: 'GITLAB_ANSWER_INVALID', path: userPath, detail: 'it is about another agent' })
}

/** @throws KasError IMPERSONATION_UNKNOWN unless there is exactly one `access_as`, and kas knows it */
export function userGrantOf({ agent, user, access_as }: UserAccess, onLeftOut: LeftOutListener): UserGrant {
  const [first, ...others] = Object.entries(access_as)
  const granted = { configProjectId: agent.config_project.id, user }
  if (!first || others.length > 0) throw unknown(Object.keys(access_as).join(' and ') || 'nothing')
  const [kind, value] = first
  if (kind === 'agent') return { accessAs: { as: 'agent' }, ...granted }
  const parsed = asUser.safeParse(value)
  if (kind !== 'user' || !parsed.success) throw unknown(kind)
  const { projects, groups } = parsed.data
  return {
    accessAs: {
      as: 'user',
      projects: membersOf(projects, userPath, 'access_as.user.projects', onLeftOut),
      groups: membersOf(groups, userPath, 'access_as.user.groups', onLeftOut),
    },
    ...granted,
  }
}

function unknown(found: string): KasError {
  return new KasError({ code: 'IMPERSONATION_UNKNOWN', found: found.slice(0, 100) })
}

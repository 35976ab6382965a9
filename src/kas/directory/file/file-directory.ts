import type { AgentId } from '../../../call/call.ts'
import { type Clock, systemClock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { HourlyLog } from '../../../lib/limited-log.ts'
import type { Logger } from '../../../lib/log.ts'
import { sameHash, tokenHash } from '../../../lib/token-hash.ts'
import type { Agent } from '../../agent.ts'
import { type AgentConfiguration, configurationPath } from '../../agent-config/agent-config-reader.ts'
import type { AgentConfigs } from '../../agent-config/agent-configs.ts'
import {
  type Directory,
  type DirectoryListener,
  type GrantQuestion,
  isProject,
  type JobGrant,
  type UserCredential,
  type UserGrant,
} from '../directory.ts'
import type { AgentEnvironment, AgentsOfUser, LocalDirectory } from '../local-directory.ts'
import { agentsOfUser } from './agents-of-user.ts'
import { decideCiAccess } from './ci-access.ts'
import type { Job, TokenEntry, User } from './directory-contents.ts'
import type { DirectoryFile } from './directory-file.ts'
import { decideUserAccess, hasAccessRole } from './user-access.ts'

export interface FileDirectoryComponents {
  readonly directoryFile: Pick<DirectoryFile, 'contents' | 'onChange' | 'onExpired' | 'onCallersExpired'>
  readonly configurations: Pick<AgentConfigs, 'current' | 'onAnyChange'>
  readonly log: Logger
  readonly clock?: Clock
}

/**
 * Authentication by one YAML file; permissions by the agents' own configuration files, as with GitLab. Each answer
 * comes from the contents in force, so a change applies to the next call.
 */
export class FileDirectory implements Directory, LocalDirectory {
  readonly #components: FileDirectoryComponents
  readonly #clock: Clock
  /** reasons of refusals for known callers; the caller's text does not contain them, as upstream's does not */
  readonly #refusals: HourlyLog

  constructor(components: FileDirectoryComponents) {
    this.#components = components
    this.#clock = components.clock ?? systemClock
    this.#refusals = new HourlyLog({ clock: this.#clock, log: components.log.child({ mod_name: 'directory' }) })
  }

  async agentByToken(token: string, _signal: AbortSignal): Promise<Agent> {
    const { contents } = this.#components.directoryFile
    if (!contents) throw new KasError({ code: 'DIRECTORY_UNAVAILABLE' })
    const agent = this.#owner(contents.agentTokens, token)
    if (!agent) throw new KasError({ code: 'UNAUTHENTICATED' })
    return agent
  }

  async grantJob(
    agentId: AgentId,
    jobToken: string,
    signal: AbortSignal,
    { onKnown }: GrantQuestion = {},
  ): Promise<JobGrant> {
    const { contents } = this.#components.directoryFile
    if (!contents) throw new KasError({ code: 'JOB_AGENTS_FAILED' })
    const job = this.#owner(contents.jobTokens, jobToken)
    if (!job) throw new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })
    onKnown?.({ user: job.user, job: { id: job.job.id, pipelineId: job.pipeline.id, projectId: job.project.id } })
    const agent = contents.agents.get(agentId)
    if (!agent) throw new KasError({ code: 'AGENT_NOT_ALLOWED' })
    const found = await this.#configuration(agent, signal, 'JOB_AGENTS_FAILED')
    const decision = decideCiAccess(agent, job, found?.configuration)
    if (!decision.allowed) {
      const { id, path } = job.project
      const fields = { project_id: String(id), job_project: path, ...refusalFields(agent, found, decision) }
      this.#refusals.log(decision.loud ? 'warn' : 'info', fields, 'CI job refused by the agent configuration')
      throw new KasError({ code: 'AGENT_NOT_ALLOWED' })
    }
    const { accessAs } = decision
    if (accessAs.as === 'unknown') throw new KasError({ code: 'IMPERSONATION_UNKNOWN', found: accessAs.found })
    return jobGrant(agent, job, accessAs)
  }

  async grantUser(
    agentId: AgentId,
    credential: UserCredential,
    signal: AbortSignal,
    { onKnown }: GrantQuestion = {},
  ): Promise<UserGrant> {
    const unauthorized = () => new KasError({ code: 'USER_UNAUTHORIZED' })
    if (credential.type !== 'personal_access_token') throw unauthorized() // browser sessions live in GitLab
    const { contents } = this.#components.directoryFile
    if (!contents) throw new KasError({ code: 'USER_FAILED' })
    const { owner: user, expiresAt } = this.#entry(contents.userTokens, credential.key) ?? {}
    if (user) onKnown?.({ user })
    const agent = contents.agents.get(agentId)
    if (!user || !agent) throw unauthorized()
    const found = await this.#configuration(agent, signal, 'USER_FAILED')
    const decision = decideUserAccess(user, found?.configuration.userAccess, contents)
    if (!decision.allowed) {
      const fields = { username: user.username, ...refusalFields(agent, found, decision) }
      this.#refusals.log('info', fields, 'User refused by the agent configuration')
      throw unauthorized()
    }
    if (decision.as === 'unknown') throw new KasError({ code: 'IMPERSONATION_UNKNOWN', found: decision.found })
    return { ...userGrant(agent, user, decision), ...(expiresAt === undefined ? {} : { endsAt: expiresAt }) }
  }

  agentsOfUser(token: string): AgentsOfUser {
    const { contents } = this.#components.directoryFile
    if (!contents) throw new KasError({ code: 'USER_FAILED' })
    const user = this.#owner(contents.userTokens, token)
    if (!user) throw new KasError({ code: 'USER_UNAUTHORIZED' })
    const { configurations } = this.#components
    const list = (signal: AbortSignal) =>
      agentsOfUser({ configurations, clock: this.#clock }, { user, contents }, signal)
    return { user: { id: user.id, username: user.username }, list }
  }

  isDeveloper(userId: bigint, projectId: bigint): boolean {
    const { contents } = this.#components.directoryFile
    const project = contents?.projects.get(projectId)
    const user = contents?.userTokens.values().find(({ owner }) => owner.id === userId)?.owner
    return user !== undefined && project !== undefined && hasAccessRole(user, project)
  }

  environmentsOf(agentId: AgentId): readonly AgentEnvironment[] {
    return this.#components.directoryFile.contents?.environments.get(agentId) ?? []
  }

  async readsProject(agentToken: string, projectPath: string, signal: AbortSignal): Promise<boolean> {
    return (await this.readableProject(agentToken, projectPath, signal)) !== undefined
  }

  /** Finds a project among the agent's own and those of its `reads`: the file knows no public projects. */
  async readableProject(
    agentToken: string,
    project: string,
    signal: AbortSignal,
  ): Promise<Agent['project'] | undefined> {
    const agent = await this.agentByToken(agentToken, signal)
    const reads = this.#components.directoryFile.contents?.reads.get(agent.id) ?? []
    return [agent.project, ...reads].find((each) => isProject(each, project))
  }

  readHint(agentId: AgentId, project: string): string {
    return `if the directory file has the project ${project}, add its id to reads of agent ${agentId} there; else add both`
  }

  /**
   * Calls `listener` after other contents came into force or a token expired, until the returned function is called.
   */
  onChange(listener: DirectoryListener): () => void {
    const { directoryFile } = this.#components
    const undo = [directoryFile.onChange(() => listener()), directoryFile.onExpired(listener)]
    return () => {
      for (const each of undo) each()
    }
  }

  /**
   * Calls `listener` after other contents came into force, tokens of users or jobs expired, or an agent's configuration
   * was read again. The returned function ends the calls.
   */
  onGrantsChange(listener: DirectoryListener): () => void {
    const { directoryFile, configurations } = this.#components
    const undo = [
      directoryFile.onChange(() => listener()),
      directoryFile.onCallersExpired(() => listener()),
      configurations.onAnyChange(({ id }) => listener(new Set([id]))),
    ]
    return () => {
      for (const each of undo) each()
    }
  }

  #owner<Owner>(tokens: ReadonlyMap<string, TokenEntry<Owner>>, token: string): Owner | undefined {
    return this.#entry(tokens, token)?.owner
  }

  /** @returns undefined: the token is unknown, or it has ended */
  #entry<Owner>(tokens: ReadonlyMap<string, TokenEntry<Owner>>, token: string): TokenEntry<Owner> | undefined {
    const hash = tokenHash(token)
    const entry = tokens.get(hash)
    if (!entry || !sameHash(entry.hash, hash)) return undefined
    const isExpired = entry.expiresAt !== undefined && entry.expiresAt <= this.#clock.now()
    return isExpired ? undefined : entry
  }

  async #configuration(
    agent: Agent,
    signal: AbortSignal,
    code: 'JOB_AGENTS_FAILED' | 'USER_FAILED',
  ): Promise<AgentConfiguration | undefined> {
    try {
      return await this.#components.configurations.current(agent, signal)
    } catch (cause) {
      signal.throwIfAborted()
      throw new KasError({ code }, { cause })
    }
  }
}

/** Returns log fields that say what the operator or the maintainer of the agent's project checks next. */
function refusalFields(agent: Agent, found: AgentConfiguration | undefined, { reason }: { reason: string }) {
  const fields = { agent_id: String(agent.id), agent_project: agent.project.path, file: configurationPath(agent) }
  if (!found)
    return { ...fields, reason: 'the repository of the project is empty: commit the file to its default branch' }
  if (!found.isAbsent) return { ...fields, commit_id: found.commit, reason }
  return { ...fields, commit_id: found.commit, reason: 'the default branch does not have the file: commit it there' }
}

function jobGrant(
  agent: Agent,
  { user, job, pipeline, project, environment }: Job,
  accessAs: JobGrant['accessAs'],
): JobGrant {
  return {
    accessAs,
    configProjectId: agent.project.id,
    user: { id: user.id, username: user.username },
    job,
    pipeline,
    project: { id: project.id, groups: project.groups.map(({ id }) => ({ id })) },
    environment: environment && { slug: environment.slug, tier: environment.tier },
  }
}

function userGrant(
  agent: Agent,
  { id, username }: User,
  access:
    | { as: 'agent' }
    | ({ as: 'user' } & Pick<Extract<UserGrant['accessAs'], { as: 'user' }>, 'projects' | 'groups'>),
): UserGrant {
  const accessAs: UserGrant['accessAs'] =
    access.as === 'agent' ? { as: 'agent' } : { as: 'user', projects: access.projects, groups: access.groups }
  return { accessAs, configProjectId: agent.project.id, user: { id, username } }
}

import type { AgentId } from '../../../call/call.ts'
import { type Clock, systemClock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { LimitedLog } from '../../../lib/limited-log.ts'
import { Listeners } from '../../../lib/listeners.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Service } from '../../../lib/service.ts'
import { tokenHash } from '../../../lib/token-hash.ts'
import type { Agent } from '../../agent.ts'
import {
  type Directory,
  type DirectoryListener,
  type GrantQuestion,
  isProject,
  type JobGrant,
  type UserCredential,
  type UserGrant,
} from '../directory.ts'
import type { Gitlab, GitlabAnswer, GitlabRequest } from '../gitlab.ts'
import { AgentInfos } from './agent-info.ts'
import { AnswerCache } from './answer-cache.ts'
import { agentErrors, jobErrors, translated, unavailable, unlessRefused, userErrors } from './directory-errors.ts'
import { GitalyCoordinatesByProject } from './gitaly-coordinates.ts'
import type { Turn } from './gitlab-call-limit.ts'
import type { GitlabClient } from './gitlab-client.ts'
import { isRefusal } from './gitlab-reach.ts'
import { GitlabTokenAnswers } from './gitlab-token-answers.ts'
import {
  askJobAgents,
  askUserAccess,
  type JobAgents,
  jobGrantOf,
  type LeftOutListener,
  type UserAccess,
  userGrantOf,
} from './grants.ts'
import { askAccess, askProject, type ProjectInfo, type ProjectQuestion } from './project-info.ts'
import { TokenWatches } from './token-watches.ts'
import { UnknownCredentials } from './unknown-credentials.ts'

export interface GitlabDirectoryComponents {
  readonly client: Pick<GitlabClient, 'ask' | 'send' | 'pass'>
  readonly log: Logger
  readonly clock?: Clock
  readonly random?: () => number
  /** called when an unknown credential was not checked because too many others wait for a check */
  readonly onUnchecked?: (kind: CredentialKind) => void
}

/** Owner of a credential: an agent on 8150, or a job or user on 8154. */
export type CredentialKind = 'agents' | 'users'

export interface GitlabDirectoryOptions {
  /** upstream's agent.info_cache_ttl and info_cache_error_ttl, in ms */
  readonly infoTtlMs: number
  readonly infoErrorTtlMs: number
  /** upstream's agent.gitops.project_info_cache_ttl and _error_ttl, in ms */
  readonly projectTtlMs: number
  readonly projectErrorTtlMs: number
  /** upstream's agent.kubernetes_api.allowed_agent_cache_ttl and _error_ttl, in ms */
  readonly accessTtlMs: number
  readonly accessErrorTtlMs: number
  /** from one failed question about an agent's token to the next, in ms; GitLab may ask for more, up to `maxPauseMs` */
  readonly pauseMs?: number
  /** the longest pause that GitLab may ask for, in ms */
  readonly maxPauseMs?: number
}

const defaults = { pauseMs: 1000, maxPauseMs: 10_000 }

/** Time in which revoked tokens are collected into one report, in ms. */
const settleMs = 2000

/** Characters of a token or a cookie: GitLab's web server accepts no longer ones. */
const maxCredentialLength = 8192

/** A token is sent in a header: printable characters only. */
const sendableToken = /^[\x21-\x7e]{1,8192}$/

/**
 * Authentication and permissions by GitLab's internal REST API, with upstream's paths, caches and texts.
 *
 * @see doc/reference/tunnel-protocol.md 5.2, 5.3, doc/reference/gitlab-contract.md 2, 9.1
 */
export class GitlabDirectory implements Directory, Gitlab, Service {
  /** locations of agents' repositories */
  readonly coordinates = new GitalyCoordinatesByProject()
  readonly tokenAnswers: GitlabTokenAnswers
  readonly #client: Pick<GitlabClient, 'ask' | 'send' | 'pass'>
  readonly #infos: AgentInfos
  readonly #agents: AnswerCache<Agent>
  readonly #accesses: AnswerCache<boolean>
  readonly #projects: AnswerCache<ProjectInfo>
  readonly #jobs: AnswerCache<JobAgents>
  readonly #users: AnswerCache<UserAccess>
  readonly #clock: Clock
  readonly #watches: TokenWatches
  readonly #unknown: UnknownCredentials
  readonly #onUnchecked: (kind: CredentialKind) => void
  readonly #onLeftOut: LeftOutListener
  readonly #listeners = new Listeners<ReadonlySet<AgentId>>()
  /** agents whose tokens were refused, before the listeners are called */
  readonly #lost = new Set<AgentId>()
  #cancelNotify: (() => void) | undefined

  constructor(components: GitlabDirectoryComponents, options: GitlabDirectoryOptions) {
    const { pauseMs, maxPauseMs, ...ttls } = { ...defaults, ...options }
    const clock = components.clock ?? systemClock
    this.#clock = clock
    this.#client = components.client
    const log = components.log.child({ mod_name: 'directory' })
    this.#infos = new AgentInfos({ ...components, log, clock })
    const leftOut = new LimitedLog({ clock, log }, 'Left out entries of an answer of GitLab: they grant nothing')
    this.#onLeftOut = ({ path, list, count, first }) =>
      leftOut.warn(`${count} of ${list}; wrong or missing in the first: ${first}`, { url_path: path })
    this.#unknown = new UnknownCredentials({ clock })
    this.#onUnchecked = components.onUnchecked ?? (() => undefined)
    const pause = ({ spec }: KasError) => {
      if (spec.code === 'CREDENTIAL_NOT_CHECKED') return 0 // GitLab was not asked
      return Math.min(maxPauseMs, Math.max(pauseMs, spec.code === 'GITLAB_STATUS' ? (spec.retryAfterMs ?? 0) : 0))
    }
    const noPause = () => 0
    const info = { ttlMs: ttls.infoTtlMs, errorTtlMs: ttls.infoErrorTtlMs, isRefusal, pauseMs: pause }
    const access = { ttlMs: ttls.accessTtlMs, errorTtlMs: ttls.accessErrorTtlMs, isRefusal, pauseMs: noPause }
    this.#agents = new AnswerCache(
      { clock },
      { ...info, onAnswer: (hash) => this.tokenAnswers.notify(hash), onLost: ({ id }) => this.#agentLost(id) },
    )
    this.tokenAnswers = new GitlabTokenAnswers({ cache: this.#agents, coordinates: this.coordinates })
    this.#accesses = new AnswerCache({ clock }, info)
    const project = { ttlMs: ttls.projectTtlMs, errorTtlMs: ttls.projectErrorTtlMs }
    this.#projects = new AnswerCache({ clock }, { ...info, ...project })
    this.#jobs = new AnswerCache({ clock }, access)
    this.#users = new AnswerCache({ clock }, access)
    this.#watches = new TokenWatches({
      clock,
      random: components.random ?? Math.random,
      ask: (token, signal) => this.agentByToken(token, signal),
      keptMs: (token) => this.#agents.keptMs(tokenHash(token)),
    })
  }

  async start(): Promise<void> {
    // nothing is asked before the first call
  }

  async stop(): Promise<void> {
    this.#watches.stop()
    this.#cancelNotify?.()
    this.#listeners.clear()
  }

  /** Calls `listener` after GitLab refused a known agent's token, until the returned function is called. */
  onChange(listener: DirectoryListener): () => void {
    return this.#listeners.add(listener)
  }

  /** Reports the agent alone: an agent whose tokens are refused in a loop costs no other agent a tunnel. */
  #agentLost(agentId: AgentId): void {
    this.#lost.add(agentId)
    this.#cancelNotify ??= this.#clock.after(settleMs, () => {
      this.#cancelNotify = undefined
      const lost = new Set(this.#lost)
      this.#lost.clear()
      this.#listeners.notify(lost)
    })
  }

  async agentByToken(token: string, signal: AbortSignal, from?: string): Promise<Agent> {
    if (!sendableToken.test(token)) throw new KasError({ code: 'UNAUTHENTICATED' })
    const ask = async (asking: AbortSignal, isKnown: boolean) => {
      const { agent, coordinates } = await this.#inTurn('agents', { secret: token, from, isKnown }, (turn) =>
        this.#infos.ask({ token, turn }, asking),
      )
      this.coordinates.learn(agent.project.id, coordinates, this.#clock.now())
      return agent
    }
    return await translated(agentErrors, signal, () => this.#agents.get(tokenHash(token), ask, signal))
  }

  /**
   * Keeps the answer current. GitLab shows an agent as connected for 8 minutes after each question
   * (doc/reference/gitlab-contract.md 0 no. 5).
   */
  watchToken(token: string): () => void {
    return this.#watches.watch(token)
  }

  async grantJob(
    agentId: AgentId,
    jobToken: string,
    signal: AbortSignal,
    { from, maxAgeMs, onKnown }: GrantQuestion = {},
  ): Promise<JobGrant> {
    if (!sendableToken.test(jobToken)) throw new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })
    const ask = (asking: AbortSignal, isKnown: boolean) =>
      this.#inTurn('users', { secret: jobToken, from, isKnown }, (turn) =>
        askJobAgents({ client: this.#client, onLeftOut: this.#onLeftOut }, { jobToken, turn }, asking),
      )
    const agents = await translated(jobErrors, signal, () => this.#jobs.get(tokenHash(jobToken), ask, signal, maxAgeMs))
    const { user, job, pipeline, project } = agents
    onKnown?.({ user, job: { id: job.id, pipelineId: pipeline.id, projectId: project.id } })
    return jobGrantOf(agents, agentId)
  }

  async grantUser(
    agentId: AgentId,
    credential: UserCredential,
    signal: AbortSignal,
    { from, maxAgeMs, onKnown }: GrantQuestion = {},
  ): Promise<UserGrant> {
    const csrfToken = credential.type === 'session_cookie' ? credential.csrfToken : ''
    const key = hashOf(String(agentId), credential.type, credential.key, csrfToken)
    if (credential.key === '' || credential.key.length > maxCredentialLength) {
      throw new KasError({ code: 'USER_UNAUTHORIZED' })
    }
    const ask = (asking: AbortSignal, isKnown: boolean) =>
      this.#inTurn('users', { secret: credential.key, from, isKnown }, (turn) =>
        askUserAccess(this.#client, { agentId, credential, turn }, asking),
      )
    const access = await translated(userErrors, signal, () => this.#users.get(key, ask, signal, maxAgeMs))
    onKnown?.({ user: access.user })
    return userGrantOf(access, this.#onLeftOut)
  }

  async readsProject(agentToken: string, projectPath: string, signal: AbortSignal): Promise<boolean> {
    const ask = async (asking: AbortSignal) => {
      await askAccess(this.#client, this.#question(agentToken, projectPath), asking)
      return true
    }
    const answer = this.#accesses.get(hashOf(agentToken, projectPath), ask, signal)
    return (await unlessRefused(answer, signal)) ?? false
  }

  async readableProject(
    agentToken: string,
    project: string,
    signal: AbortSignal,
  ): Promise<Agent['project'] | undefined> {
    const agent = await this.agentByToken(agentToken, signal)
    if (isProject(agent.project, project)) return agent.project // its coordinates came with it
    const ask = async (asking: AbortSignal) => {
      const info = await askProject(this.#client, this.#question(agentToken, project), asking)
      this.coordinates.learn(info.project.id, info.coordinates, this.#clock.now())
      return info
    }
    return (await unlessRefused(this.#projects.get(hashOf(agentToken, project), ask, signal), signal))?.project
  }

  readHint(_: AgentId, project: string): string {
    return `GitLab shows agents the project of their configuration, and public ones: see that ${project} is there, and public`
  }

  async takeConfiguration(
    agentId: AgentId,
    configuration: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<'taken' | 'agent_removed'> {
    const path = '/internal/kubernetes/agent_configuration'
    // in proto JSON (doc/reference/captured.md 2)
    const body = { agent_id: String(agentId), agent_config: configuration }
    try {
      await this.#client.send({ method: 'POST', path, body, queue: 'reports', repeatable: true }, signal)
      return 'taken'
    } catch (error) {
      signal.throwIfAborted()
      const failure = KasError.from(error)
      if (failure.spec.code === 'GITLAB_STATUS' && failure.spec.status === 404) return 'agent_removed'
      throw unavailable(failure)
    }
  }

  /** Passes a request to one of GitLab's own modules, whose content kas does not know. */
  async passToGitlab(
    { method, target, headers, token, contentLength, body }: GitlabRequest,
    take: (answer: GitlabAnswer) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const length = contentLength === undefined ? [] : ['Content-Length', String(contentLength)]
    const passage = {
      method,
      path: '/internal/kubernetes/modules',
      target,
      headers: [...headers, ...Object.entries(this.#infos.headers(token)).flat(), ...length],
      body,
      queue: 'modules' as const,
    }
    await this.#client.pass(passage, take, signal)
  }

  #question(agentToken: string, project: string): ProjectQuestion {
    return { project, headers: this.#infos.headers(agentToken), source: tokenHash(agentToken) }
  }

  /** Asks in the queue of the credential. Known credentials have a queue that made-up ones cannot fill. */
  async #inTurn<T>(
    kind: CredentialKind,
    { isKnown, ...credential }: { secret: string; from: string | undefined; isKnown: boolean },
    ask: (turn: Turn) => Promise<T>,
  ): Promise<T> {
    if (isKnown) return await ask({ queue: kind })
    try {
      return await this.#unknown.check(credential, (how) => ask({ queue: `new_${kind}`, ...how }))
    } catch (error) {
      if (KasError.from(error).code === 'CREDENTIAL_NOT_CHECKED') this.#onUnchecked(kind)
      throw error
    }
  }
}

/** Returns a hash that reveals nothing of the parts, and that no other parts have. */
function hashOf(...parts: readonly string[]): string {
  return tokenHash(JSON.stringify(parts))
}

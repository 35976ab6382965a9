import * as z from 'zod'
import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Agent } from '../../agent.ts'
import type { GitalyCoordinates } from '../../repositories/gitaly/gitaly-coordinates.ts'
import type { Turn } from './gitlab-call-limit.ts'
import type { GitlabClient } from './gitlab-client.ts'
import { refusesKas } from './gitlab-reach.ts'
import { projectInfo, repositorySchema } from './project-info.ts'
import { id, name } from './read-answer.ts'

/** GitLab's answer for an agent's token. */
export interface AgentInfo {
  readonly agent: Agent
  readonly coordinates: GitalyCoordinates
}

/** A question for the agent of a token. */
interface AgentQuestion {
  readonly token: string
  readonly turn: Turn
}

/**
 * Paths of GitLab 18.2 and later, and of older versions; some versions in between have both
 * (doc/reference/gitlab-contract.md 9.1 no. 4).
 */
const newPath = '/internal/agents/agentk/agent_info'
const oldPath = '/internal/kubernetes/agent_info'

/** Time after which kas tries without the oldest header again, in ms: GitLab may have been updated. */
const bearerMemoryMs = 3_600_000

const schema = z.object({ ...repositorySchema, agent_id: id, agent_name: name })

/**
 * Asks GitLab for the agent of a token: by the new path, or by the old one if the new one is not there. The path that
 * answered is used until it fails.
 */
export class AgentInfos {
  readonly #client: Pick<GitlabClient, 'ask'>
  readonly #log: Logger
  readonly #clock: Clock
  #answering: string | undefined
  /**
   * until when the token is also sent as a bearer, which GitLab before 17.2 may need; `never`: GitLab reads newer
   * headers
   */
  #bearerUntil: number | 'unknown' | 'never' = 'unknown'

  constructor(components: { client: Pick<GitlabClient, 'ask'>; log: Logger; clock: Clock }) {
    this.#client = components.client
    this.#log = components.log
    this.#clock = components.clock
  }

  /**
   * Returns headers that authenticate an agent to any version of GitLab (doc/reference/gitlab-contract.md 9.1 no. 3). A
   * GitLab that reads the other headers gets no bearer: it might take the token for a user's.
   */
  headers(token: string): Record<string, string> {
    return typeof this.#bearerUntil === 'number' ? withBearer(token) : plain(token)
  }

  /**
   * Asks for the agent of a token.
   *
   * @throws KasError GITLAB_STATUS (404: neither path is there), GITLAB_UNREACHABLE, GITLAB_ANSWER_INVALID,
   * GITLAB_BUSY, CREDENTIAL_NOT_CHECKED
   */
  async ask({ token, turn }: AgentQuestion, signal: AbortSignal): Promise<AgentInfo> {
    const paths = this.#answering === oldPath ? [oldPath, newPath] : [newPath, oldPath]
    let absent: unknown
    for (const path of paths) {
      try {
        const headers = plain(token)
        const info =
          path === oldPath
            ? await this.#askOld({ token, turn }, signal)
            : await this.#askAt(newPath, { headers, turn }, signal)
        this.#remember(path)
        return info
      } catch (error) {
        if (isStatus(error, 401) || isStatus(error, 403)) this.#answering = path
        if (!isStatus(error, 404)) throw error
        if (this.#answering === path) this.#answering = undefined
        absent = error
      }
    }
    this.#log.warn({ error: absent }, 'GitLab has no agent_info: is gitlab.address right, and GitLab 16.5 or later?')
    throw absent
  }

  #remember(path: string): void {
    this.#answering = path
    if (path === newPath) this.#bearerUntil = 'never'
  }

  /**
   * Asks by the old path. If GitLab does not find the token, kas repeats with the oldest header too: until a token was
   * found, and once in a while.
   */
  async #askOld({ token, turn }: AgentQuestion, signal: AbortSignal): Promise<AgentInfo> {
    const isDue = typeof this.#bearerUntil === 'number' && this.#bearerUntil <= this.#clock.now()
    if (this.#bearerUntil !== 'unknown' && !isDue)
      return await this.#askAt(oldPath, { headers: this.headers(token), turn }, signal)
    try {
      const info = await this.#askAt(oldPath, { headers: plain(token), turn }, signal)
      this.#bearerUntil = 'never'
      return info
    } catch (error) {
      if (!isStatus(error, 401) || refusesKas(error)) throw error
      const info = await this.#askAt(oldPath, { headers: withBearer(token), turn }, signal)
      this.#bearerUntil = this.#clock.now() + bearerMemoryMs
      return info
    }
  }

  async #askAt(
    path: string,
    { headers, turn }: { headers: Record<string, string>; turn: Turn },
    signal: AbortSignal,
  ): Promise<AgentInfo> {
    const call = { method: 'GET', path, headers, ...turn, repeatable: false } as const
    return agentInfo(await this.#client.ask(call, schema, signal))
  }
}

function plain(token: string): Record<string, string> {
  return { 'Gitlab-Agent-Api-Request': token, 'Gitlab-Agentk-Api-Request': token }
}

function withBearer(token: string): Record<string, string> {
  return { ...plain(token), Authorization: `Bearer ${token}` }
}

function agentInfo(answer: z.output<typeof schema>): AgentInfo {
  const { project, coordinates } = projectInfo(answer)
  return { agent: { id: answer.agent_id as AgentId, name: answer.agent_name, project }, coordinates }
}

function isStatus(error: unknown, status: number): error is KasError {
  return error instanceof KasError && error.spec.code === 'GITLAB_STATUS' && error.spec.status === status
}

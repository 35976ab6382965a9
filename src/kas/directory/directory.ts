import type { AgentId } from '../../call/call.ts'
import type { Impersonation } from '../../proto/http/http-message.ts'
import type { Agent } from '../agent.ts'
import type { TokenAnswers } from './token-answers.ts'

/**
 * A CI job may use the agent, and as whom (doc/reference/tunnel-protocol.md 6.3, doc/reference/gitlab-contract.md 2.4).
 */
export interface JobGrant {
  readonly accessAs: { as: 'agent' } | { as: 'ci_job' } | { as: 'impersonate'; impersonate: Impersonation }
  readonly configProjectId: bigint
  readonly user: { readonly id: bigint; readonly username: string }
  readonly job: { readonly id: bigint }
  readonly pipeline: { readonly id: bigint }
  readonly project: { readonly id: bigint; readonly groups: readonly { readonly id: bigint }[] }
  readonly environment?: { readonly slug: string; readonly tier: string } | undefined
}

interface Roles {
  readonly id: bigint
  /** lower-case role names, lowest first */
  readonly roles: readonly string[]
}

/**
 * A user may use the agent, and as whom (doc/reference/tunnel-protocol.md 6.3, doc/reference/gitlab-contract.md 2.3).
 */
export interface UserGrant {
  readonly accessAs: { as: 'agent' } | { as: 'user'; projects: readonly Roles[]; groups: readonly Roles[] }
  readonly configProjectId: bigint
  readonly user: { readonly id: bigint; readonly username: string }
}

export type UserCredential =
  | { readonly type: 'personal_access_token'; readonly key: string }
  | { readonly type: 'session_cookie'; readonly key: string; readonly csrfToken: string }

/** Whose credential it is, whatever he may. */
export interface KnownCaller {
  readonly user: { readonly id: bigint; readonly username: string }
  /** absent: it is no job's */
  readonly job?: { readonly id: bigint; readonly pipelineId: bigint; readonly projectId: bigint }
}

export interface GrantQuestion {
  /** the caller's address, where it is not known yet */
  readonly from?: string | undefined
  /** an answer that is kept for longer is not good enough; default: for as long as answers are kept. ms */
  readonly maxAgeMs?: number | undefined
  /** Called before he is refused or let in, if the directory knows who it is. */
  readonly onKnown?: ((caller: KnownCaller) => void) | undefined
}

/** A user, and the agents that let him in. */
export interface UserAgents {
  readonly user: { readonly id: bigint; readonly username: string }
  /**
   * In the order of the directory. Agents whose configuration cannot be read, or not in time, are counted alone.
   *
   * @throws the signal's reason
   */
  list(signal: AbortSignal): Promise<{ readonly agents: readonly Agent[]; readonly unread: number }>
}

/** Objects of an agent's cluster that are deployed to an environment. */
export interface AgentEnvironment {
  /** `<project id>/<slug>` */
  readonly key: string
  /** empty: any */
  readonly namespace: string
  /** labels that they have; empty: all objects */
  readonly selector: Readonly<Record<string, string>>
}

/** A request to one of GitLab's modules, on behalf of the agent whose token it is. */
export interface GitlabRequest {
  readonly method: string
  /** `/<module>/<path>?<query>`, encoded */
  readonly target: string
  /** name, value, name, value */
  readonly headers: readonly string[]
  readonly token: string
  /** undefined: unknown, if there is a body */
  readonly contentLength?: number
  /** absent: none */
  readonly body?: AsyncIterable<Uint8Array>
}

export interface GitlabAnswer {
  readonly statusCode: number
  readonly statusText: string
  /** name, value, name, value */
  readonly rawHeaders: readonly string[]
  readonly body: AsyncIterable<Uint8Array>
}

/** @param agentIds - whom the change concerns; absent: it may concern anybody */
export type DirectoryListener = (agentIds?: ReadonlySet<AgentId>) => void

/**
 * Who is who. Two implementations, chosen by configuration: `gitlab` (Rails' internal REST API) and `file`.
 * Both answer from caches where they can; tokens are kept as hashes only.
 */
export interface Directory {
  /**
   * @param from - address of who shows the token, where it is not known yet
   * @throws KasError UNAUTHENTICATED, FORBIDDEN, AGENT_NOT_FOUND, DIRECTORY_UNAVAILABLE (try again),
   * CREDENTIAL_NOT_CHECKED
   */
  agentByToken(token: string, signal: AbortSignal, from?: string): Promise<Agent>
  /**
   * The agent of this token is connected, until the returned function is called: the answer is asked for anew whenever
   * it is old, and `onChange` reports when it is a refusal. Absent: nobody has to ask.
   */
  watchToken?(token: string): () => void
  /**
   * @throws KasError JOB_TOKEN_UNAUTHORIZED, JOB_TOKEN_FORBIDDEN, JOB_TOKEN_NOT_FOUND, JOB_AGENTS_FAILED,
   * AGENT_NOT_ALLOWED, IMPERSONATION_UNKNOWN, CREDENTIAL_NOT_CHECKED
   */
  grantJob(agentId: AgentId, jobToken: string, signal: AbortSignal, how?: GrantQuestion): Promise<JobGrant>
  /** @throws KasError USER_UNAUTHORIZED, USER_FAILED, IMPERSONATION_UNKNOWN, CREDENTIAL_NOT_CHECKED */
  grantUser(agentId: AgentId, credential: UserCredential, signal: AbortSignal, how?: GrantQuestion): Promise<UserGrant>
  /**
   * Whose token it is, and which agents let him in by their `user_access`. Absent: nobody can list them.
   *
   * @throws KasError USER_UNAUTHORIZED, USER_FAILED
   */
  agentsOfUser?(token: string): UserAgents
  /** What is deployed to which environment in the cluster of an agent; absent: labels alone say it. */
  environmentsOf?(agentId: AgentId): readonly AgentEnvironment[]
  /**
   * Whether the agent of this token may read a project: its notices of pushes depend on it
   * (doc/reference/tunnel-protocol.md 5.3). Absent: there are no such notices.
   *
   * @param projectPath - full path
   * @throws KasError DIRECTORY_UNAVAILABLE (try again)
   */
  readsProject?(agentToken: string, projectPath: string, signal: AbortSignal): Promise<boolean>
  /**
   * A project that the agent of this token may read, by its full path or its number: from then on `Repositories` know
   * where it lies. `undefined`: there is none. Absent: agents read nothing.
   *
   * @throws KasError as `agentByToken`; DIRECTORY_UNAVAILABLE (try again)
   */
  readableProject?(agentToken: string, project: string, signal: AbortSignal): Promise<Agent['project'] | undefined>
  /** What lets an agent read a project that it may not: a sentence for its people. Absent: nobody can say. */
  readHint?(agentId: AgentId, project: string): string
  /**
   * Takes the configuration of an agent, the whole file as JSON with its keys as they stand there; never after a read
   * that failed (doc/reference/gitlab-contract.md 9.1 no. 9 and 10). Absent: nobody wants it.
   *
   * @throws KasError DIRECTORY_UNAVAILABLE (try again)
   */
  takeConfiguration?(
    agentId: AgentId,
    configuration: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<'taken' | 'agent_removed'>
  /**
   * Makes an agent's request to one of GitLab's modules, and has the answer taken before it resolves. Absent: there is
   * no GitLab (doc/reference/tunnel-protocol.md 5.3).
   *
   * @throws KasError GITLAB_UNREACHABLE, GITLAB_BUSY, what `take` or the request's body threw, or the signal's reason
   */
  passToGitlab?(
    request: GitlabRequest,
    take: (answer: GitlabAnswer) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void>
  /** What is kept of agents' tokens, for other replicas; absent: each knows it by itself. */
  readonly tokenAnswers?: TokenAnswers
  /**
   * Calls `listener` after answers may have changed, until the returned function is called; absent: nobody knows.
   */
  onChange?(listener: DirectoryListener): () => void
  /**
   * Calls `listener` after what `grantJob` and `grantUser` answer may have changed, of all agents or of those it is given, until
   * the returned function is called; absent: nobody knows, and who wants to know asks from time to time.
   */
  onGrantsChange?(listener: DirectoryListener): () => void
}

/** Whether `project` is the full path of this one, or its number. */
export function isProject({ id, path }: Agent['project'], project: string): boolean {
  return path.toLowerCase() === project.toLowerCase() || String(id) === project
}

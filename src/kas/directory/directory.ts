import type { AgentId } from '../../call/call.ts'
import type { Impersonation } from '../../proto/http/http-message.ts'
import type { Agent } from '../agent.ts'

/**
 * Permission of a CI job to use the agent, and the identity for it (doc/reference/tunnel-protocol.md 6.3,
 * doc/reference/gitlab-contract.md 2.4).
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
 * Permission of a user to use the agent, and the identity for it (doc/reference/tunnel-protocol.md 6.3,
 * doc/reference/gitlab-contract.md 2.3).
 */
export interface UserGrant {
  readonly accessAs: { as: 'agent' } | { as: 'user'; projects: readonly Roles[]; groups: readonly Roles[] }
  readonly configProjectId: bigint
  readonly user: { readonly id: bigint; readonly username: string }
  /** end of the credential, in ms since 1970; undefined: none, or the directory does not know it */
  readonly endsAt?: number | undefined
}

export type UserCredential =
  | { readonly type: 'personal_access_token'; readonly key: string }
  | { readonly type: 'session_cookie'; readonly key: string; readonly csrfToken: string }

/** Owner of a credential, whether or not the agent admits them. */
export interface KnownCaller {
  readonly user: { readonly id: bigint; readonly username: string }
  /** undefined: the credential is not a job's */
  readonly job?: { readonly id: bigint; readonly pipelineId: bigint; readonly projectId: bigint }
}

export interface GrantQuestion {
  /** the caller's address, if it is not known yet */
  readonly from?: string | undefined
  /** the oldest cached answer that is good enough, in ms; default: any cached answer */
  readonly maxAgeMs?: number | undefined
  /** Called before the answer, whether access is granted or not, if the directory knows the caller. */
  readonly onKnown?: ((caller: KnownCaller) => void) | undefined
}

/** @param agentIds - agents that the change concerns; undefined: it may concern any agent */
export type DirectoryListener = (agentIds?: ReadonlySet<AgentId>) => void

/**
 * Authentication of agents and callers, and their permissions. Two implementations, chosen by configuration: `gitlab`
 * (Rails' internal REST API) and `file`. Both answer from caches where they can, and keep tokens only as hashes.
 * `Gitlab` and `LocalDirectory` contain what only one implementation offers.
 */
export interface Directory {
  /**
   * Returns the agent of a token.
   *
   * @param from - address of the client that sends the token, if it is not known yet
   * @throws KasError UNAUTHENTICATED, FORBIDDEN, AGENT_NOT_FOUND, DIRECTORY_UNAVAILABLE (try again),
   * CREDENTIAL_NOT_CHECKED
   */
  agentByToken(token: string, signal: AbortSignal, from?: string): Promise<Agent>
  /**
   * @throws KasError JOB_TOKEN_UNAUTHORIZED, JOB_TOKEN_FORBIDDEN, JOB_TOKEN_NOT_FOUND, JOB_AGENTS_FAILED,
   * AGENT_NOT_ALLOWED, IMPERSONATION_UNKNOWN, CREDENTIAL_NOT_CHECKED
   */
  grantJob(agentId: AgentId, jobToken: string, signal: AbortSignal, how?: GrantQuestion): Promise<JobGrant>
  /** @throws KasError USER_UNAUTHORIZED, USER_FAILED, IMPERSONATION_UNKNOWN, CREDENTIAL_NOT_CHECKED */
  grantUser(agentId: AgentId, credential: UserCredential, signal: AbortSignal, how?: GrantQuestion): Promise<UserGrant>
  /**
   * True if the agent of this token may read a project. Only then the agent gets its notices of pushes
   * (doc/reference/tunnel-protocol.md 5.3).
   *
   * @param projectPath - full path
   * @throws KasError DIRECTORY_UNAVAILABLE (try again)
   */
  readsProject(agentToken: string, projectPath: string, signal: AbortSignal): Promise<boolean>
  /**
   * Returns a project that the agent of this token may read, by its full path or its number; `undefined`: there is
   * none. From then on `Repositories` know its address.
   *
   * @throws KasError as `agentByToken`; DIRECTORY_UNAVAILABLE (try again)
   */
  readableProject(agentToken: string, project: string, signal: AbortSignal): Promise<Agent['project'] | undefined>
  /** Returns a sentence for the agent's operators: how to let the agent read a project that it may not read. */
  readHint(agentId: AgentId, project: string): string
  /** Calls `listener` after answers of `agentByToken` may have changed, until the returned function is called. */
  onChange(listener: DirectoryListener): () => void
}

/** True if `project` is this project's full path, or its number. */
export function isProject({ id, path }: Agent['project'], project: string): boolean {
  return path.toLowerCase() === project.toLowerCase() || String(id) === project
}

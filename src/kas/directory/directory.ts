import type { AgentId } from '../../call/call.ts'
import type { Impersonation } from '../../proto/http/http-message.ts'
import type { Agent } from '../agent.ts'

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
  /** of the credential, where the directory knows it; in ms since 1970 */
  readonly endsAt?: number | undefined
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

/** @param agentIds - whom the change concerns; absent: it may concern anybody */
export type DirectoryListener = (agentIds?: ReadonlySet<AgentId>) => void

/**
 * Who is who, and who may what. Two implementations, chosen by configuration: `gitlab` (Rails' internal REST API) and
 * `file`. Both answer from caches where they can; tokens are kept as hashes only. What one of them alone can say is
 * `Gitlab` and `LocalDirectory`.
 */
export interface Directory {
  /**
   * @param from - address of who shows the token, where it is not known yet
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
   * Whether the agent of this token may read a project: its notices of pushes depend on it
   * (doc/reference/tunnel-protocol.md 5.3).
   *
   * @param projectPath - full path
   * @throws KasError DIRECTORY_UNAVAILABLE (try again)
   */
  readsProject(agentToken: string, projectPath: string, signal: AbortSignal): Promise<boolean>
  /**
   * A project that the agent of this token may read, by its full path or its number: from then on `Repositories` know
   * where it lies. `undefined`: there is none.
   *
   * @throws KasError as `agentByToken`; DIRECTORY_UNAVAILABLE (try again)
   */
  readableProject(agentToken: string, project: string, signal: AbortSignal): Promise<Agent['project'] | undefined>
  /** What lets an agent read a project that it may not: a sentence for its people. */
  readHint(agentId: AgentId, project: string): string
  /** Calls `listener` after answers of `agentByToken` may have changed, until the returned function is called. */
  onChange(listener: DirectoryListener): () => void
}

/** Whether `project` is the full path of this one, or its number. */
export function isProject({ id, path }: Agent['project'], project: string): boolean {
  return path.toLowerCase() === project.toLowerCase() || String(id) === project
}

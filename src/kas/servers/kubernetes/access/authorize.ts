import type { AgentId } from '../../../../call/call.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'
import type { Directory, GrantQuestion, UserCredential, UserGrant } from '../../../directory/directory.ts'
import type { CallerNames } from './caller-keys.ts'
import type { Credentials } from './credentials.ts'
import { jobImpersonation, userImpersonation } from './impersonation.ts'

/** A request that was let through, and by what: a CI job, a browser's session or a personal access token. */
export interface Access {
  readonly via: 'ci' | 'user' | 'pat'
  readonly agentId: AgentId
  readonly userId: bigint
  readonly username: string
  /** of the job, else the agent's own */
  readonly projectId: bigint
  /** absent: it is no job's */
  readonly job?: { readonly id: bigint; readonly pipelineId: bigint }
}

/** Whose share of the agent's tunnels a request takes: the user's, or that of the project whose job he has started. */
export function callerNames({ via, userId, projectId }: Access): CallerNames {
  const user = `user ${userId}`
  return { name: via === 'ci' ? `project ${projectId}` : user, user }
}

export interface Authorized {
  /** as whom the caller acts in the cluster; undefined: as the agent itself */
  readonly impersonation: Impersonation | undefined
  readonly access: Access
}

/**
 * Asks the directory whether the caller may use the agent, and as whom.
 *
 * @throws KasError of Directory.grantJob or grantUser
 */
export async function authorize(
  directory: Pick<Directory, 'grantJob' | 'grantUser'>,
  credentials: Credentials,
  signal: AbortSignal,
  how?: GrantQuestion,
): Promise<Authorized> {
  const { agentId } = credentials
  if (credentials.kind === 'job') {
    const grant = await directory.grantJob(agentId, credentials.token, signal, how)
    const { user, project, job, pipeline } = grant
    const access: Access = {
      via: 'ci',
      agentId,
      userId: user.id,
      username: user.username,
      projectId: project.id,
      job: { id: job.id, pipelineId: pipeline.id },
    }
    return { impersonation: jobImpersonation(agentId, grant), access }
  }
  const { grant, type } = await firstGrant(directory, credentials, signal, how)
  const via = type === 'session_cookie' ? 'user' : 'pat'
  const { id: userId, username } = grant.user
  const access: Access = { via, agentId, userId, username, projectId: grant.configProjectId }
  return { impersonation: userImpersonation(agentId, grant, type), access }
}

/** The first candidate that is accepted wins; a failure to find out outweighs a refusal. */
async function firstGrant(
  directory: Pick<Directory, 'grantUser'>,
  { agentId, candidates }: Extract<Credentials, { kind: 'user' }>,
  signal: AbortSignal,
  how?: GrantQuestion,
): Promise<{ grant: UserGrant; type: UserCredential['type'] }> {
  let refusal: unknown
  for (const credential of candidates) {
    try {
      return { grant: await directory.grantUser(agentId, credential, signal, how), type: credential.type }
    } catch (error) {
      if (signal.aborted) throw error
      const refused = error instanceof KasError && error.code === 'USER_UNAUTHORIZED'
      if (!refused || refusal === undefined) refusal = error
    }
  }
  throw refusal
}

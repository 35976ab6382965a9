import type { AgentId } from '../../../../call/call.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'
import type { RecordedCaller } from '../../../access-log/call-record.ts'
import type { Directory, GrantQuestion, KnownCaller, UserCredential, UserGrant } from '../../../directory/directory.ts'
import type { CallerNames } from './caller-keys.ts'
import type { Credentials } from './credentials.ts'
import { jobImpersonation, userImpersonation } from './impersonation.ts'

/** Access of a request that was let in, with the kind of its credential. */
export interface Access extends RecordedCaller {
  readonly agentId: AgentId
  readonly projectId: bigint
}

export interface AccessQuestion extends Omit<GrantQuestion, 'onKnown'> {
  /** Called before the caller is refused or let in, if the directory knows who it is. */
  readonly onKnown?: (caller: RecordedCaller) => void
}

/** Names the caller whose share of the agent's tunnels a request uses: a user, or the project of a user's job. */
export function callerNames({ via, userId, projectId }: Access): CallerNames {
  const user = `user ${userId}`
  return { name: via === 'ci' ? `project ${projectId}` : user, user }
}

export interface Authorized {
  /** identity of the caller in the cluster; undefined: the agent itself */
  readonly impersonation: Impersonation | undefined
  readonly access: Access
  /** project of the job, or projects in which the grant gives the user a role */
  readonly projectIds: readonly bigint[]
  /** project that configures the agent, which is its tenant */
  readonly configProjectId: bigint
  /** end of the user's token, in ms since 1970; absent: unknown */
  readonly endsAt?: number | undefined
}

/**
 * Asks the directory whether the caller may use the agent, and with which identity.
 *
 * @throws KasError of Directory.grantJob or grantUser
 */
export async function authorize(
  directory: Pick<Directory, 'grantJob' | 'grantUser'>,
  credentials: Credentials,
  signal: AbortSignal,
  { onKnown, ...how }: AccessQuestion = {},
): Promise<Authorized> {
  const { agentId } = credentials
  if (credentials.kind === 'job') {
    const question = onKnown ? { ...how, onKnown: (who: KnownCaller) => onKnown(callerAccess('ci', who)) } : how
    const grant = await directory.grantJob(agentId, credentials.token, signal, question)
    const { user, project, job, pipeline } = grant
    const access: Access = {
      via: 'ci',
      agentId,
      userId: user.id,
      username: user.username,
      projectId: project.id,
      job: { id: job.id, pipelineId: pipeline.id },
    }
    const { configProjectId } = grant
    return { impersonation: jobImpersonation(agentId, grant), access, projectIds: [project.id], configProjectId }
  }
  const questionOf = (type: UserCredential['type']) =>
    onKnown ? { ...how, onKnown: (who: KnownCaller) => onKnown(callerAccess(viaOf(type), who)) } : how
  const { grant, type } = await firstGrant(directory, credentials, signal, questionOf)
  const { id: userId, username } = grant.user
  const access: Access = { via: viaOf(type), agentId, userId, username, projectId: grant.configProjectId }
  const { accessAs, configProjectId, endsAt } = grant
  const projectIds = accessAs.as === 'user' ? accessAs.projects.map(({ id }) => id) : []
  return { impersonation: userImpersonation(agentId, grant, type), access, projectIds, configProjectId, endsAt }
}

function viaOf(type: UserCredential['type']): Access['via'] {
  return type === 'session_cookie' ? 'user' : 'pat'
}

function callerAccess(via: Access['via'], { user: { id: userId, username }, job }: KnownCaller): RecordedCaller {
  if (!job) return { via, userId, username }
  const { id, pipelineId, projectId } = job
  return { via, userId, username, projectId, job: { id, pipelineId } }
}

/** Asks about each candidate: the first accepted one wins; an error of asking outweighs a refusal. */
async function firstGrant(
  directory: Pick<Directory, 'grantUser'>,
  { agentId, candidates }: Extract<Credentials, { kind: 'user' }>,
  signal: AbortSignal,
  questionOf: (type: UserCredential['type']) => GrantQuestion,
): Promise<{ grant: UserGrant; type: UserCredential['type'] }> {
  let refusal: unknown
  for (const credential of candidates) {
    try {
      return {
        grant: await directory.grantUser(agentId, credential, signal, questionOf(credential.type)),
        type: credential.type,
      }
    } catch (error) {
      if (signal.aborted) throw error
      const refused = error instanceof KasError && error.code === 'USER_UNAUTHORIZED'
      if (!refused || refusal === undefined) refusal = error
    }
  }
  throw refusal
}

import type { AgentId } from '../../../../call/call.ts'
import { KasError } from '../../../../lib/errors.ts'
import { printable } from '../../../../lib/printable.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'
import type { JobGrant, UserCredential, UserGrant } from '../../../directory/directory.ts'

/**
 * Decides the identity of a call in the cluster (doc/reference/tunnel-protocol.md 6.3). RBAC rules of users match these
 * names, order and keys. Undefined: the agent's own service account.
 */

const extraPrefix = 'agent.gitlab.com/'

/** @throws KasError IMPERSONATION_UNKNOWN: acting as the agent instead would grant more than intended */
export function jobImpersonation(agentId: AgentId, grant: JobGrant): Impersonation | undefined {
  const { accessAs } = grant
  switch (accessAs.as) {
    case 'agent':
      return undefined
    case 'impersonate':
      // without a user name agentk would not impersonate
      if (accessAs.impersonate.username.trim() === '') throw unknown('impersonate without username')
      return accessAs.impersonate
    case 'ci_job':
      return {
        username: `gitlab:ci_job:${grant.job.id}`,
        groups: jobGroups(grant),
        uid: '',
        extra: jobExtra(agentId, grant),
      }
    default:
      throw unknown(String((accessAs as { as?: unknown }).as))
  }
}

/** @throws KasError IMPERSONATION_UNKNOWN */
export function userImpersonation(
  agentId: AgentId,
  grant: UserGrant,
  accessType: UserCredential['type'],
): Impersonation | undefined {
  const { accessAs, user } = grant
  switch (accessAs.as) {
    case 'agent':
      return undefined
    case 'user':
      return {
        username: `gitlab:user:${user.username}`,
        groups: [
          'gitlab:user',
          ...accessAs.projects.flatMap(({ id, roles }) => roles.map((role) => `gitlab:project_role:${id}:${role}`)),
          ...accessAs.groups.flatMap(({ id, roles }) => roles.map((role) => `gitlab:group_role:${id}:${role}`)),
        ],
        uid: '',
        extra: [
          extra('id', agentId),
          extra('username', user.username),
          extra('access_type', accessType),
          extra('config_project_id', grant.configProjectId),
        ],
      }
    default:
      throw unknown(String((accessAs as { as?: unknown }).as))
  }
}

/**
 * Checks a request with `Impersonate-*` headers. They are only allowed in calls to the cluster that act as the agent,
 * where agentk decides about them.
 *
 * @param impersonation - identity that kas gives the call
 * @param request.isOwn - kas answers the request by itself
 * @throws KasError IDENTITY_REFUSED
 */
export function refuseNames(impersonation: Impersonation | undefined, { isOwn }: { readonly isOwn: boolean }): void {
  if (!impersonation && !isOwn) return
  const why = impersonation ? `this call acts as ${impersonation.username} already` : 'kas itself answers this path'
  const detail = `Impersonate-* headers of callers are refused here: ${printable(why)}`
  throw new KasError({ code: 'IDENTITY_REFUSED', detail })
}

function jobGroups({ project, environment }: JobGrant): string[] {
  const groups = ['gitlab:ci_job']
  for (const { id } of project.groups) {
    groups.push(`gitlab:group:${id}`)
    if (environment) groups.push(`gitlab:group_env_tier:${id}:${environment.tier}`)
  }
  groups.push(`gitlab:project:${project.id}`)
  if (environment) {
    groups.push(`gitlab:project_env:${project.id}:${environment.slug}`)
    groups.push(`gitlab:project_env_tier:${project.id}:${environment.tier}`)
  }
  return groups
}

function jobExtra(agentId: AgentId, grant: JobGrant): Impersonation['extra'] {
  const { environment } = grant
  const pairs = [
    extra('id', agentId),
    extra('config_project_id', grant.configProjectId),
    extra('project_id', grant.project.id),
    extra('ci_pipeline_id', grant.pipeline.id),
    extra('ci_job_id', grant.job.id),
    extra('username', grant.user.username),
  ]
  if (environment) {
    pairs.push(extra('environment_slug', environment.slug), extra('environment_tier', environment.tier))
  }
  return pairs
}

function extra(key: string, value: bigint | string) {
  return { key: extraPrefix + key, val: [String(value)] }
}

function unknown(found: string): KasError {
  return new KasError({ code: 'IMPERSONATION_UNKNOWN', found })
}

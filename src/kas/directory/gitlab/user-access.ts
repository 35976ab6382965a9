import * as z from 'zod'
import type { AgentId } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import type { UserCredential, UserGrant } from '../directory.ts'
import { id, withId } from './answer-schema.ts'
import type { Turn } from './call-gate.ts'
import type { GitlabClient } from './gitlab-client.ts'

const path = '/internal/kubernetes/authorize_proxy_user'

const schema = z.object({
  agent: z.object({ id, config_project: withId }),
  user: z.object({ id, username: z.string().min(1) }),
  access_as: z.record(z.string(), z.unknown()),
})

/** What GitLab lets a user do with an agent (doc/reference/gitlab-contract.md 2.3). */
export type UserAccess = z.output<typeof schema>

const holdings = z
  .array(z.object({ id, roles: z.array(z.string().min(1)) }))
  .nullish()
  .transform((list) => list ?? [])
const asUser = z.object({ projects: holdings, groups: holdings })

/** @throws KasError GITLAB_STATUS, GITLAB_UNREACHABLE, GITLAB_ANSWER_INVALID, GITLAB_BUSY, CREDENTIAL_NOT_CHECKED */
export async function askUserAccess(
  client: Pick<GitlabClient, 'ask'>,
  { agentId, credential, turn }: { agentId: AgentId; credential: UserCredential; turn: Turn },
  signal: AbortSignal,
): Promise<UserAccess> {
  const body = {
    agent_id: String(agentId), // proto JSON writes 64-bit numbers as text, and leaves out what is empty
    access_type: credential.type,
    access_key: credential.key,
    ...(credential.type === 'session_cookie' ? { csrf_token: credential.csrfToken } : {}),
  }
  const call = { method: 'POST', path, body, ...turn, repeatable: true } as const
  const access = await client.ask(call, schema, signal)
  if (access.agent.id === agentId) return access
  throw new KasError({ code: 'GITLAB_ANSWER_INVALID', path, detail: 'it is about another agent' })
}

/** @throws KasError IMPERSONATION_UNKNOWN unless there is exactly one `access_as`, and kas knows it */
export function userGrantOf({ agent, user, access_as }: UserAccess): UserGrant {
  const [first, ...others] = Object.entries(access_as)
  const granted = { configProjectId: agent.config_project.id, user }
  if (!first || others.length > 0) throw unknown(Object.keys(access_as).join(' and ') || 'nothing')
  const [kind, value] = first
  if (kind === 'agent') return { accessAs: { as: 'agent' }, ...granted }
  const parsed = asUser.safeParse(value)
  if (kind !== 'user' || !parsed.success) throw unknown(kind)
  return { accessAs: { as: 'user', ...parsed.data }, ...granted }
}

function unknown(found: string): KasError {
  return new KasError({ code: 'IMPERSONATION_UNKNOWN', found: found.slice(0, 100) })
}

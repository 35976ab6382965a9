import { type Found, failed } from '../../lib/doctor/findings.ts'
import type { ApiClient } from '../cluster/api-client.ts'
import type { MayImpersonate } from '../cluster/may-impersonate.ts'
import { checkRight, nameOfRight, type Right } from './access-review.ts'

/** Limit of checked entries: each one is a request to the API server. */
const maxEntries = 100

const authentication = 'authentication.k8s.io'
/** One of the extra keys with which GitLab describes the caller. A role has to name all of them. */
const extraKey = 'agent.gitlab.com/id'
const verb = 'impersonate'

/**
 * Compares the identities that agentk accepts with those that RBAC lets its account act as.
 *
 * @returns a failure for each name that agentk accepts and RBAC refuses, and a note where RBAC allows more than agentk
 */
export async function checkImpersonation(api: ApiClient, { callers, kas }: MayImpersonate): Promise<Found[]> {
  const named = callers === 'any' ? [] : [...callers]
  const flagOf = (entry: string) => (kas.has(entry) ? '--may-impersonate' : '--callers-may-impersonate')
  const entries = [...new Set([...kas, ...named])]
  const found = await Promise.all([
    ...kasNames.map((right) => checkRight(api, right, { denied: kasNameDenied })),
    ...widths.map((width) => checkWidth(api, width, callers === 'any')),
    ...entries.slice(0, maxEntries).map((entry) => checkEntry(api, entry, flagOf(entry))),
  ])
  if (entries.length <= maxEntries) return found
  const text = `only the first ${maxEntries} of ${entries.length} names of --may-impersonate and --callers-may-impersonate are asked for`
  return [...found, { state: 'skipped', text }]
}

const kasNames: readonly Right[] = [
  { verb, group: '', resource: 'users' },
  { verb, group: '', resource: 'groups' },
  { verb, group: authentication, resource: 'userextras', subresource: extraKey },
]

const kasNameDenied: Found = {
  state: 'note',
  text: 'not allowed',
  advice:
    'calls as agent work; ci_job, impersonate and user of access_as need it; a role that names some is not seen here',
}

/** A right that allows more than agentk accepts by itself. */
interface Width {
  readonly right: Right
  /** action that the right allows the account */
  readonly means: string
}

const widths: readonly Width[] = [
  { right: { verb, group: '', resource: 'users' }, means: "act as any user, Kubernetes' own controllers too" },
  { right: { verb, group: '', resource: 'groups', name: 'system:masters' }, means: 'act as cluster-admin' },
  { right: { verb, group: '', resource: 'serviceaccounts' }, means: 'act as any service account' },
  { right: { verb, group: authentication, resource: 'uids' }, means: 'act with any uid' },
]

/** @param isForAll - callers who act as the agent may name any user or group */
function checkWidth(api: ApiClient, { right, means }: Width, isForAll: boolean): Promise<Found> {
  const text = isForAll
    ? `allowed: with --callers-may-impersonate=any every caller that acts as the agent can ${means}`
    : `allowed: agentk refuses names that no list has, but whoever has the token of its account can ${means}`
  const advice = isForAll
    ? 'name the users and groups that occur in place of any'
    : 'name the users and groups that occur in the role, by resourceNames'
  return checkRight(api, right, {
    subject: `beyond the lists: ${nameOfRight(right)}`,
    allowed: { state: 'note', text, advice },
    denied: { state: 'ok', text: 'not allowed' },
  })
}

function checkEntry(api: ApiClient, entry: string, flag: string): Promise<Found> {
  const right = rightOf(entry)
  const text = `the cluster refuses it: agentk's account has no right to ${nameOfRight(right)}`
  const denied = failed(text, 'allow it in a role, or take the name from the list')
  return checkRight(api, right, { subject: `${flag}=${entry}`, denied })
}

/** @param entry - in the form that `parseMayImpersonate` returns */
function rightOf(entry: string): Right {
  const [kind = '', ...rest] = entry.split(':')
  const name = rest.join(':')
  switch (kind) {
    case 'serviceaccount': {
      const [namespace = '', account = ''] = rest
      return { verb, group: '', resource: 'serviceaccounts', namespace, name: account }
    }
    case 'extra':
      return { verb, group: authentication, resource: 'userextras', subresource: name }
    case 'uid':
      return { verb, group: authentication, resource: 'uids', name }
    default:
      return { verb, group: '', resource: `${kind}s`, name }
  }
}

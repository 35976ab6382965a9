import { builtIn } from '../../kubernetes/kind.ts'
import { at, textAt } from '../../kubernetes/object.ts'
import { collectionPath } from '../../kubernetes/path.ts'
import type { ApiClient } from './api-client.ts'

/** Limit of the API server's message in an error. Characters */
const maxMessageLength = 300

/** Action on a resource. */
export interface AccessAttributes {
  readonly verb: 'get' | 'list' | 'watch' | 'patch' | 'delete'
  /** empty: core; `*`: any */
  readonly group: string
  /** plural; `*`: any */
  readonly resource: string
  /** empty: in the whole cluster */
  readonly namespace: string
  /** absent: of any name */
  readonly name?: string
}

export interface ReviewOptions {
  /** impersonation headers of the caller: name, value, name, value */
  readonly headers: readonly string[]
  readonly maxBytes?: number
}

/**
 * Asks the API server whether a caller may do something, by a SelfSubjectAccessReview: its authorizers decide.
 *
 * @throws Error: the answer cannot be used; the connection's error, or the signal's reason
 */
export async function mayAccess(
  api: Pick<ApiClient, 'json'>,
  resourceAttributes: AccessAttributes,
  options: ReviewOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const kind = 'SelfSubjectAccessReview'
  const body = await review(api, { kind, path: accessPath, spec: { resourceAttributes } }, options, signal)
  const allowed = at(body, 'status.allowed')
  if (typeof allowed !== 'boolean') throw new Error('the answer says neither yes nor no')
  return allowed
}

/**
 * Asks the API server what a caller may do in a namespace, by a SelfSubjectRulesReview.
 *
 * @returns the review with its status. @throws as `mayAccess`
 */
export async function rulesIn(
  api: Pick<ApiClient, 'json'>,
  namespace: string,
  options: ReviewOptions,
  signal: AbortSignal,
): Promise<unknown> {
  return await review(api, { kind: 'SelfSubjectRulesReview', path: rulesPath, spec: { namespace } }, options, signal)
}

const accessPath = collectionPath(builtIn.accessReviews)
const rulesPath = collectionPath(builtIn.rulesReviews)

async function review(
  api: Pick<ApiClient, 'json'>,
  { kind, path, spec }: { readonly kind: string; readonly path: string; readonly spec: object },
  options: ReviewOptions,
  signal: AbortSignal,
): Promise<unknown> {
  const answer = await api.json('POST', path, { apiVersion: 'authorization.k8s.io/v1', kind, spec }, signal, options)
  if (answer.status === 201 || answer.status === 200) return answer.body
  const message = textAt(answer.body, 'message').slice(0, maxMessageLength)
  throw new Error(`HTTP status ${answer.status}${message && `: ${message}`}`)
}

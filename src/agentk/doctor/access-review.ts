import { builtIn } from '../../kubernetes/kind.ts'
import { collectionPath } from '../../kubernetes/path.ts'
import type { Finding } from '../../lib/findings.ts'
import type { ApiClient } from '../cluster/api-client.ts'

/** timeout of each question, in ms */
export const questionTimeoutMs = 10_000
export const forbidden = 403
const reviewPath = collectionPath(builtIn.accessReviews)
const reviewAdvice = 'let the account create selfsubjectaccessreviews, as ClusterRole system:basic-user does for all'

export interface Right {
  readonly verb: string
  readonly group: string
  readonly resource: string
  readonly subresource?: string
  readonly namespace?: string
  /** name of one object; absent: the question is for all objects */
  readonly name?: string
}

/** @returns true if agentk's account has the right; a finding if the question has no answer */
export async function reviewAccess(api: ApiClient, attributes: Right): Promise<boolean | Finding> {
  const unanswered = { check: 'rights', state: 'skipped', subject: nameOfRight(attributes) } as const
  const review = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: attributes },
  }
  try {
    const { status, body } = await api.json('POST', reviewPath, review, AbortSignal.timeout(questionTimeoutMs))
    const { allowed } = (body as { status?: { allowed?: unknown } } | undefined)?.status ?? {}
    if (typeof allowed === 'boolean') return allowed
    const next = status === forbidden ? { advice: reviewAdvice } : {}
    return { ...unanswered, text: `the review was answered with ${status}`, ...next }
  } catch (error) {
    return { ...unanswered, text: (error as Error).message }
  }
}

export function nameOfRight({ verb, group, resource, subresource, namespace, name }: Right): string {
  const full = `${resource}${group === '' ? '' : `.${group}`}${subresource === undefined ? '' : `/${subresource}`}`
  return `${verb} ${full}${name === undefined ? '' : ` ${name}`}${namespace === undefined ? '' : ` in ${namespace}`}`
}

import { builtIn } from '../../kubernetes/kind.ts'
import { collectionPath } from '../../kubernetes/path.ts'
import type { Found } from '../../lib/doctor/findings.ts'
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

interface Answers {
  /** default: the name of the right */
  readonly subject?: string
  /** finding if the account has the right; default: ok */
  readonly allowed?: Found
  /** finding if it does not have the right */
  readonly denied: Found
}

/** Asks if agentk's account has a right. @returns a skipped finding if the question has no answer */
export async function checkRight(api: ApiClient, right: Right, answers: Answers): Promise<Found> {
  const { subject = nameOfRight(right), allowed = { state: 'ok', text: 'allowed' }, denied } = answers
  const unanswered = { state: 'skipped', subject: nameOfRight(right) } as const
  const review = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: right },
  }
  try {
    const { status, body } = await api.json('POST', reviewPath, review, AbortSignal.timeout(questionTimeoutMs))
    const answer = (body as { status?: { allowed?: unknown } } | undefined)?.status?.allowed
    if (typeof answer === 'boolean') return { subject, ...(answer ? allowed : denied) }
    const advice = status === forbidden ? reviewAdvice : undefined
    return { ...unanswered, text: `the review was answered with ${status}`, advice }
  } catch (error) {
    return { ...unanswered, text: (error as Error).message }
  }
}

export function nameOfRight({ verb, group, resource, subresource, namespace, name }: Right): string {
  const full = `${resource}${group === '' ? '' : `.${group}`}${subresource === undefined ? '' : `/${subresource}`}`
  return `${verb} ${full}${name === undefined ? '' : ` ${name}`}${namespace === undefined ? '' : ` in ${namespace}`}`
}

import { builtIn } from '../../../../kubernetes/kind.ts'
import { at, listAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath } from '../../../../kubernetes/path.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'

/** Bound of an answer with rules: enough for a caller with a thousand bindings. */
const maxRulesBytes = 4 * 1024 * 1024

/** Question to the API server, asked as the caller. */
export type Question =
  /** May the caller list it, or watch it? `namespace` empty: in the whole cluster */
  | {
      readonly about: Verb
      readonly key: string
      readonly group: string
      readonly resource: string
      readonly namespace: string
    }
  /** What may the caller do in the namespace? */
  | { readonly about: 'rules'; readonly key: string; readonly namespace: string }

type Verb = 'list' | 'watch'

export type Answered = { readonly allowed: boolean } | { readonly rules: Rules | undefined }

/** All rules of a namespace, if the API server knows all: anything they lack is denied. */
export interface Rules {
  mayAllow(verb: Verb, group: string, resource: string): boolean
}

export function listQuestion(of: string, resource: string, namespace: string): Question {
  return accessQuestion('list', of, resource, namespace)
}

export function accessQuestion(about: Verb, of: string, resource: string, namespace: string): Question {
  return { about, key: JSON.stringify([about, of, resource, namespace]), group: of, resource, namespace }
}

export function rulesQuestion(namespace: string): Question {
  return { about: 'rules', key: JSON.stringify([namespace]), namespace }
}

/**
 * @param headers - impersonation headers of the caller: name, value, name, value
 * @throws Error: the API server gave no answer that can be used
 */
export async function ask(
  api: Pick<ApiClient, 'json'>,
  question: Question,
  headers: readonly string[],
  signal: AbortSignal,
): Promise<Answered> {
  const { about, namespace } = question
  const isRules = about === 'rules'
  const spec =
    about === 'rules'
      ? { namespace }
      : { resourceAttributes: { verb: about, group: question.group, resource: question.resource, namespace } }
  const kind = isRules ? 'SelfSubjectRulesReview' : 'SelfSubjectAccessReview'
  const answer = await api.json(
    'POST',
    collectionPath(isRules ? builtIn.rulesReviews : builtIn.accessReviews),
    { apiVersion: 'authorization.k8s.io/v1', kind, spec },
    signal,
    { headers, ...(isRules ? { maxBytes: maxRulesBytes } : {}) },
  )
  if (answer.status !== 201 && answer.status !== 200) {
    const message = textAt(answer.body, 'message').slice(0, 300)
    throw new Error(`HTTP status ${answer.status}${message && `: ${message}`}`)
  }
  if (isRules) return { rules: rulesIn(answer.body) }
  const allowed = at(answer.body, 'status.allowed')
  if (typeof allowed !== 'boolean') throw new Error('the answer says neither yes nor no')
  return { allowed }
}

function rulesIn(body: unknown): Rules | undefined {
  if (at(body, 'status.incomplete') !== false) return undefined
  const rules = listAt(body, 'status.resourceRules')
  return {
    mayAllow: (verb, of, resource) =>
      rules.some((rule) => has(rule, 'verbs', verb) && has(rule, 'apiGroups', of) && has(rule, 'resources', resource)),
  }
}

function has(rule: unknown, member: string, value: string): boolean {
  const values = at(rule, member)
  return Array.isArray(values) && (values.includes(value) || values.includes('*'))
}

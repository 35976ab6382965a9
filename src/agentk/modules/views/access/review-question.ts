import { at, listAt } from '../../../../kubernetes/object.ts'
import { mayAccess, rulesIn } from '../../../cluster/access-review.ts'
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
  if (about === 'rules') {
    return { rules: readRules(await rulesIn(api, namespace, { headers, maxBytes: maxRulesBytes }, signal)) }
  }
  const { group, resource } = question
  return { allowed: await mayAccess(api, { verb: about, group, resource, namespace }, { headers }, signal) }
}

function readRules(body: unknown): Rules | undefined {
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

import { listAt, textAt } from '../../../../kubernetes/object.ts'
import type { JsonAnswer } from '../../../cluster/api-client.ts'
import type { Refuser } from '../manifests/kind-ranks.ts'
import type { AbsentObject } from './absent-objects.ts'
import { type Lacked, lackedIn } from './lacked.ts'

/**
 * Kind of a refusal.
 *
 * - `foreign`: the object is another's
 * - `conflict`: the field is another's
 * - `busy`: others write the object, or delete it
 * - `denied`: the account may not do this
 * - `invalid`: the API server, or a policy, does not take the object
 * - `immutable`: only a new object could have the value
 * - `taken`: another object has the value, such as a port
 * - `quota`: the namespace has no more of it
 * - `absent`: the kind or the namespace does not exist
 * - `webhook`: a webhook does not answer
 * - `unavailable`: the API server, or the server of the kind, cannot answer now
 */
export type ApplyProblemKind =
  | 'foreign'
  | 'conflict'
  | 'busy'
  | 'denied'
  | 'invalid'
  | 'immutable'
  | 'taken'
  | 'quota'
  | 'absent'
  /** its kind is not served */
  | 'unserved'
  | 'webhook'
  | 'unavailable'

export interface ApplyProblem {
  readonly kind: ApplyProblemKind
  /** for people */
  readonly text: string
  /** for `immutable`: uid of the object that is deleted after an approval */
  readonly replaces?: string
  /** for `invalid`: fields that the API server names, such as `spec.ports[1].name` */
  readonly places?: readonly string[]
  /** advice for people, if the API server would take the object as a new one */
  readonly wayOut?: string
  /** webhook or policy that has refused it, as the API server reports */
  readonly refuser?: Extract<Refuser, 'webhook' | 'policy'>
  /** missing object that the API server names */
  readonly lacks?: Lacked
  /** place of that object: once it exists, the refused object is tried again */
  readonly absent?: AbsentObject
}

/** Searched anywhere: long values may precede it. */
const immutable =
  /field is immutable|Forbidden: (?:updates to|(?:pod updates )?may not change|spec is immutable)|is immutable after creation|may not change once set|primary clusterIP can not be unset|cannot change roleRef/
/** Messages of the API server, and of the webhook of ingress-nginx. */
const taken = /provided (?:port|IP) is already allocated|is already defined in ingress/
const quota = /exceeded quota: /

/** Attempts for an object that others write at the same time: it is read and sent again. */
export const maxAttempts = 5

/** True if the resourceVersion, or the `test` of a patch, no longer matches. */
export function isStale({ status, body }: JsonAnswer): boolean {
  if (status === 409) return textAt(body, 'reason') === 'Conflict' && listAt(body, 'details.causes').length === 0
  return (
    status === 422 && textAt(body, 'message').includes('the server rejected our request due to an error in our request')
  )
}

/** Converts an answer without success to a problem; its text shows no values. */
export function refusal(answer: JsonAnswer): ApplyProblem {
  const { status, body } = answer
  const message = textAt(body, 'message')
  const lacks = lackedIn(message.slice(0, maxMessageLength))
  const text = refusalText(answer) || `the API server answered ${status}`
  const refuser = refuserIn(message)
  const places = status === 422 ? placesIn(body) : []
  return {
    kind: kindOf(status, message),
    text,
    ...(lacks && { lacks }),
    ...(refuser && { refuser }),
    ...(places.length > 0 && { places }),
  }
}

/** Limit of places that are read from one answer. */
const maxPlaces = 20

function placesIn(body: unknown): readonly string[] {
  const all = listAt(body, 'details.causes').map((cause) => textAt(cause, 'field'))
  return all.filter((place) => place !== '').slice(0, maxPlaces)
}

function refuserIn(message: string): ApplyProblem['refuser'] {
  if (/(?:Validating|Mutating)AdmissionPolicy '/.test(message)) return 'policy'
  return /admission webhook "|failed calling webhook "/.test(message) ? 'webhook' : undefined
}

function kindOf(status: number, message: string): ApplyProblemKind {
  if (status >= 400 && status < 500 && taken.test(message)) return 'taken'
  if (status === 403 && quota.test(message)) return 'quota'
  if (status === 401 || status === 403) return 'denied'
  if (status === 404) return 'absent'
  if (status === 409) return 'busy'
  if (status === 422 && immutable.test(message)) return 'immutable'
  if (status === 500 && message.includes('failed calling webhook')) return 'webhook'
  // an apply with an unknown field, or with a field of another type, is answered with 500 too
  if (status === 500 && /^failed to create (?:manager|typed)|field not declared in schema/.test(message))
    return 'invalid'
  if (status === 429 || status >= 500) return 'unavailable'
  return 'invalid'
}

/** Limit of the API server's message that is read. */
const maxMessageLength = 16 * 1024
/** Limit of the part of it that is shown. */
const maxTextLength = 1000

const missing = /^secrets "[^"]*" is forbidden: (?:User "|exceeded quota: )/
const quotedValue = /Invalid value: "(?:[^"\\]|\\.)*"/g
/** Beginning of a value: the object, or part of it, may follow. */
const valueBegin =
  /Invalid value: (?!…|-?[\d.]+: |true: |false: |null: )|valueUnstructured\{|error found in #\d+ byte of /
/** reasons that follow a value, and contain none */
const reasons = /field is immutable|may not change once set|primary clusterIP can not be unset/

/** Returns the message without values; for a Secret only fields and reasons, except for a missing right or quota. */
function refusalText({ body }: Pick<JsonAnswer, 'body'>): string {
  const message = textAt(body, 'message').slice(0, maxMessageLength)
  if (isOfSecret(body, message) && !missing.test(message)) return secretText(body)
  return withoutValues(withoutDiffs(message))
    .replaceAll(/\s*\n\s*/g, ' ')
    .trim()
    .slice(0, maxTextLength)
}

/** Texts of the API server for the reasons of its causes. */
const causeReasons: Readonly<Record<string, string>> = {
  FieldValueRequired: 'Required value',
  FieldValueInvalid: 'Invalid value',
  FieldValueForbidden: 'Forbidden',
  FieldValueTooLong: 'Too long',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueDuplicate: 'Duplicate value',
}

/** Returns fields and reasons, which contain no values. */
function secretText(body: unknown): string {
  const all = listAt(body, 'details.causes').flatMap((cause) => {
    const [field, reason] = [textAt(cause, 'field'), causeReasons[textAt(cause, 'reason')]]
    return field === '' || reason === undefined ? [] : [`${field}: ${reason}`]
  })
  return [...new Set(all)].slice(0, maxPlaces).join('; ').slice(0, maxTextLength)
}

function isOfSecret(body: unknown, message: string): boolean {
  const isNamed = /^secrets?$/i.test(textAt(body, 'details.kind')) && textAt(body, 'details.group') === ''
  return isNamed || /^Secret |Kind=Secret\b/.test(message)
}

/** Lines that compare Git's spec with the cluster's, after the reason for which a field cannot change. */
const diff = /(Forbidden: [^\n]*)(?:\n[ \u00a0@+-][^\n]*)+\n?/g

function withoutDiffs(message: string): string {
  return message.replaceAll(diff, '$1')
}

/** Removes quoted values. After an unquoted value it removes all but the reason for which a field cannot change. */
function withoutValues(message: string): string {
  const text = message.replaceAll(quotedValue, 'Invalid value: …')
  const found = valueBegin.exec(text)
  if (!found) return text
  const end = found.index + found[0].length
  const [reason] = reasons.exec(text.slice(end)) ?? []
  return `${text.slice(0, end)}…${reason ? `: ${reason}` : ''}`
}

import { listAt, textAt } from '../../../../kubernetes/object.ts'
import type { JsonAnswer } from '../../../cluster/api-client.ts'
import type { Refuser } from '../manifests/kind-ranks.ts'
import type { AbsentObject } from './absent-objects.ts'
import { type Lacked, lackedIn } from './lacked.ts'

/**
 * `foreign`: another's object; `conflict`: another's fields; `busy`: others write it, or delete it; `denied`: the account
 * may not; `invalid`: the API server, or a policy, does not take it; `immutable`: only a new object could have it;
 * `taken`: what it wants is another object's, such as a port; `quota`: its namespace has no more of it; `absent`: its
 * kind or its namespace is not there; `webhook`: one that is asked does not answer; `unavailable`: the API server, or who
 * serves the kind, cannot now.
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
  /** nobody serves its kind */
  | 'unserved'
  | 'webhook'
  | 'unavailable'

export interface ApplyProblem {
  readonly kind: ApplyProblemKind
  /** as people read it */
  readonly text: string
  /** of `immutable`: uid of the object that goes once somebody approves */
  readonly replaces?: string
  /** of `invalid`: places of the object that the API server names, such as `spec.ports[1].name` */
  readonly places?: readonly string[]
  /** what people can do, if the object would be taken were it new */
  readonly wayOut?: string
  /** what has refused it, as the API server says */
  readonly refuser?: Extract<Refuser, 'webhook' | 'policy'>
  /** what the API server names as not there */
  readonly lacks?: Lacked
  /** the same, where it will be: once it comes, the object is tried again */
  readonly absent?: AbsentObject
}

/** Where values stand before it, it may be far behind. */
const immutable =
  /field is immutable|Forbidden: (?:updates to|(?:pod updates )?may not change|spec is immutable)|is immutable after creation|may not change once set|primary clusterIP can not be unset|cannot change roleRef/
/** Of the API server, and of the webhook of ingress-nginx. */
const taken = /provided (?:port|IP) is already allocated|is already defined in ingress/
const quota = /exceeded quota: /

/** What others write at the same time is read and sent again, so often. */
export const maxAttempts = 5

/** The resourceVersion, or the `test` of a patch, does not hold any more. */
export function isStale({ status, body }: JsonAnswer): boolean {
  if (status === 409) return textAt(body, 'reason') === 'Conflict' && listAt(body, 'details.causes').length === 0
  return (
    status === 422 && textAt(body, 'message').includes('the server rejected our request due to an error in our request')
  )
}

/** What an answer that is no success means for the object; its text shows no values. */
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

/** Places that are read, of one answer. */
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
  // an apply with an unknown field, or one of another type, is a 500 too
  if (status === 500 && /^failed to create (?:manager|typed)|field not declared in schema/.test(message))
    return 'invalid'
  if (status === 429 || status >= 500) return 'unavailable'
  return 'invalid'
}

/** Of the API server's own words: what is read, and what of it is shown. */
const maxMessageLength = 16 * 1024
const maxTextLength = 1000

const missing = /^secrets "[^"]*" is forbidden: (?:User "|exceeded quota: )/
const quotedValue = /Invalid value: "(?:[^"\\]|\\.)*"/g
/** What stands behind may be the object, or part of it. */
const valueBegin =
  /Invalid value: (?!…|-?[\d.]+: |true: |false: |null: )|valueUnstructured\{|error found in #\d+ byte of /
/** what the API server says behind a value, without one */
const reasons = /field is immutable|may not change once set|primary clusterIP can not be unset/

/** The API server's words without values; of a Secret none, but for a right or a quota that is missing. */
function refusalText({ body }: Pick<JsonAnswer, 'body'>): string {
  const message = textAt(body, 'message').slice(0, maxMessageLength)
  if (isOfSecret(body, message) && !missing.test(message)) return secretText(body)
  return withoutValues(withoutDiffs(message))
    .replaceAll(/\s*\n\s*/g, ' ')
    .trim()
    .slice(0, maxTextLength)
}

/** Words of the API server for the reasons of its causes. */
const causeReasons: Readonly<Record<string, string>> = {
  FieldValueRequired: 'Required value',
  FieldValueInvalid: 'Invalid value',
  FieldValueForbidden: 'Forbidden',
  FieldValueTooLong: 'Too long',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueDuplicate: 'Duplicate value',
}

/** Fields and reasons, which hold no values. */
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

/** Lines of a comparison of Git's spec and the cluster's, behind why a field cannot change. */
const diff = /(Forbidden: [^\n]*)(?:\n[ \u00a0@+-][^\n]*)+\n?/g

function withoutDiffs(message: string): string {
  return message.replaceAll(diff, '$1')
}

/** What is in quotes is left out; behind what is not, all is, but why a field cannot change. */
function withoutValues(message: string): string {
  const text = message.replaceAll(quotedValue, 'Invalid value: …')
  const found = valueBegin.exec(text)
  if (!found) return text
  const end = found.index + found[0].length
  const [reason] = reasons.exec(text.slice(end)) ?? []
  return `${text.slice(0, end)}…${reason ? `: ${reason}` : ''}`
}

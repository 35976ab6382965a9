import { listAt, textAt } from '../../../../kubernetes/object.ts'
import type { JsonAnswer } from '../../../cluster/api-client.ts'
import type { Refuser } from '../manifests/kind-ranks.ts'
import { isSecretPath, secretField } from '../manifests/secrets.ts'
import type { AbsentObject } from './absent-objects.ts'
import { type Lacked, lackedIn } from './lacked.ts'
import { secretRefusal } from './secret-refusal.ts'

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
  /** fields in its way were freed before, and the API server refused it all the same */
  readonly freed?: true
  /** for `invalid`: the API server would take the object as a new one */
  readonly isTakenAsNew?: true
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

/**
 * Converts an answer without success to a problem. Its text shows no values, and of a Secret no keys.
 *
 * @param path - of the request
 */
export function refusal({ status, body }: JsonAnswer, path: string): ApplyProblem {
  const isOfSecret = isSecretPath(path)
  const message = textAt(body, 'message')
  const read = message.slice(0, maxMessageLength)
  const lacks = lackedIn(read)
  const text = shownText(isOfSecret ? secretRefusal(status, read, body) : withoutValues(withoutDiffs(read)))
  const refuser = refuserIn(message)
  const places = status === 422 ? placesIn(body).map((place) => (isOfSecret ? secretField(place) : place)) : []
  return {
    kind: kindOf(status, message),
    text: text || `the API server answered ${status}`,
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

const quotedValue = /Invalid value: "(?:[^"\\]|\\.)*"/g
/** Beginning of a value: the object, or part of it, may follow. */
const valueBegin =
  /Invalid value: (?!…|-?[\d.]+: |true: |false: |null: )|valueUnstructured\{|error found in #\d+ byte of /
/** reasons that follow a value, and contain none */
const reasons = /field is immutable|may not change once set|primary clusterIP can not be unset/

/** Returns the text on one line, cut at its limit. */
function shownText(text: string): string {
  const lines = text.split('\n').map((line) => line.trim())
  return lines
    .filter((line) => line !== '')
    .join(' ')
    .slice(0, maxTextLength)
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

import { listAt, textAt } from '../../../../kubernetes/object.ts'
import { secretField } from '../manifests/secrets.ts'

/**
 * Messages of the API server that have nothing of the object but its name. They are about rights and quotas, a missing
 * object, the server itself, or a webhook that does not answer.
 */
const plainMessages: readonly RegExp[] = [
  /^[a-z.]+(?: "[^"\n]*")? is forbidden: (?:User "|exceeded quota: |unable to create new content in namespace )/,
  /^[a-z.]+ "[^"\n]*" (?:not found|already exists)$/,
  /^(?:Timeout: |etcdserver: |Unauthorized$|Operation cannot be fulfilled on secrets )/,
  /^[Tt]he server [a-z ,()]+$/,
  /^Internal error occurred: failed calling webhook "[^"\n]*": failed to call webhook: Post "[^"\n]*": (?:[^"\n]*|service "[^"\n]*" not found|no endpoints available for service "[^"\n]*")$/,
]

/** Beginnings that name the webhook or policy that refuses. The text after them may quote the object. */
const refusers =
  /^(?:secrets "[^"\n]*" is forbidden: )?((?:Validating|Mutating)AdmissionPolicy '[^'\n]*' with binding '[^'\n]*' denied request|admission webhook "[^"\n]*" denied the request|Internal error occurred: failed calling webhook "[^"\n]*")/

/** Field of another type than the API's, or of an unknown name, in the words of server-side apply: a word by itself. */
const typedField = /(?<![^\s:])(\.[^\s:]+): (expected [a-z]+|field not declared in schema)/g

/** Words of the API server, by the reason of a cause. */
const causeReasons: Readonly<Record<string, string>> = {
  FieldValueRequired: 'Required value',
  FieldValueInvalid: 'Invalid value',
  FieldValueForbidden: 'Forbidden',
  FieldValueTooLong: 'Too long',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueDuplicate: 'Duplicate value',
}

/** Limit of fields in one text. */
const maxFields = 20

const notShown = 'keys and values of Secrets are not shown: kubectl --dry-run=server prints the whole message'

/**
 * Returns why a request about a Secret was refused: fields without keys, reasons, and the name of the webhook or policy.
 * The message itself is shown if it can have nothing of the object.
 *
 * @param message - of the API server; empty: it gives none. @param body - its Status
 */
export function secretRefusal(status: number, message: string, body: unknown): string {
  if (message === '' || plainMessages.some((form) => form.test(message))) return message
  const [, refuser] = refusers.exec(message) ?? []
  const causes = listAt(body, 'details.causes').flatMap((cause) => {
    const [field, reason] = [textAt(cause, 'field'), causeReasons[textAt(cause, 'reason')]]
    return field === '' || reason === undefined ? [] : [`${secretField(field)}: ${reason}`]
  })
  const typed = Array.from(message.matchAll(typedField), ([, field = '', fault]) => `${secretField(field)}: ${fault}`)
  const found = [...new Set([...(refuser === undefined ? [] : [refuser]), ...causes, ...typed])].slice(0, maxFields)
  const known = found.length > 0 ? found.join('; ') : `the API server answered ${status}`
  return `${known}; ${notShown}`
}

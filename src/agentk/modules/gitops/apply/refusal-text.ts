import { textAt } from '../../../../kubernetes/object.ts'
import type { JsonAnswer } from '../../../cluster/api-client.ts'

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
export function refusalText({ body }: Pick<JsonAnswer, 'body'>): string {
  const message = textAt(body, 'message').slice(0, maxMessageLength)
  if (isOfSecret(body, message) && !missing.test(message)) return ''
  return withoutValues(message).slice(0, maxTextLength)
}

function isOfSecret(body: unknown, message: string): boolean {
  const isNamed = /^secrets?$/i.test(textAt(body, 'details.kind')) && textAt(body, 'details.group') === ''
  return isNamed || /^Secret |Kind=Secret\b/.test(message)
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

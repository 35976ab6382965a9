import type { LabelSelector } from '../projection/projector.ts'
import { compileSelector, type Selects } from '../projection/selectors.ts'
import { refuse } from './members.ts'

type Expression = LabelSelector['expressions'][number]

/** characters of a label selector */
const maxText = 4096
/** Bound of terms: each object is compared with all of them. */
const maxTerms = 32

/** Pattern of a prefix, a name, or a value. */
const name = '[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?'
const key = `(?:${name}/)?${name}`
const term = {
  isOneOf: new RegExp(String.raw`^(?<key>${key})\s+(?<operator>in|notin)\s*\((?<values>[^()]*)\)$`),
  equals: new RegExp(String.raw`^(?<key>${key})\s*(?<operator>==?|!=)\s*(?<values>(?:${name})?)$`),
  exists: new RegExp(String.raw`^(?<operator>!?)\s*(?<key>${key})$`),
}

/**
 * Reads a label selector as kubectl's `-l` takes it.
 *
 * @returns undefined: the text is empty
 * @throws KasError BAD_REQUEST: it is no selector, or too long
 */
export function readLabelQuery(text: string, name: string): Selects | undefined {
  if (text === '') return undefined
  const selector = readSelector(text)
  return selector ? compileSelector(selector) : refuse(`${name} is a selector such as app=web,tier!=cache`)
}

function readSelector(text: string): LabelSelector | undefined {
  if (text.length > maxText) return undefined
  const expressions = splitOutside(text).map((one) => readTerm(one.trim()))
  if (expressions.length > maxTerms || !expressions.every((one) => one !== undefined)) return undefined
  return { labels: [], expressions }
}

/** Splits at commas outside parentheses. */
function splitOutside(text: string): string[] {
  return text.split(/,(?![^(]*\))/)
}

function readTerm(text: string): Expression | undefined {
  const isOneOf = term.isOneOf.exec(text)?.groups
  if (isOneOf) {
    const { key = '', operator = '', values = '' } = isOneOf
    return { key, operator: operator === 'in' ? 'In' : 'NotIn', values: values.split(',').map((one) => one.trim()) }
  }
  const equals = term.equals.exec(text)?.groups
  if (equals) {
    const { key = '', operator = '', values = '' } = equals
    return { key, operator: operator === '!=' ? 'NotIn' : 'In', values: [values] }
  }
  const exists = term.exists.exec(text)?.groups
  if (!exists) return undefined
  return { key: exists.key ?? '', operator: exists.operator === '!' ? 'DoesNotExist' : 'Exists', values: [] }
}

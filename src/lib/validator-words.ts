import type * as z from 'zod'

type Issue = z.core.$ZodIssue

/** Beginning of zod's own messages. Messages of a schema say what is allowed. */
const ownMessage = /^(Invalid|Too (big|small)|Unrecognized|Unknown)\b/

const types: Readonly<Record<string, string>> = {
  boolean: 'true or false',
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  array: 'a list',
  object: 'a block of keys',
  record: 'a block of keys',
  map: 'a block of keys',
  nonoptional: 'a value',
}

/** Units of counted values, by zod's word. */
const counted: Readonly<Record<string, string>> = {
  string: 'characters',
  array: 'entries',
  set: 'entries',
  map: 'keys',
}

/** Says what is allowed in place of a wrong value: the schema's text, else plain words for zod's own. */
export function allowedBy(issue: Issue): string {
  if (issue.code === 'invalid_value') return `one of ${issue.values.map(String).join(', ')}`
  if (issue.code === 'custom' || !ownMessage.test(issue.message)) return issue.message
  switch (issue.code) {
    case 'invalid_type':
      return types[issue.expected] ?? 'another kind of value'
    case 'too_small':
      return sizeText('at least', issue.origin, Number(issue.minimum) + (issue.inclusive === false ? 1 : 0))
    case 'too_big':
      return sizeText('at most', issue.origin, Number(issue.maximum) - (issue.inclusive === false ? 1 : 0))
    case 'not_multiple_of':
      return `a multiple of ${issue.divisor}`
    case 'invalid_format':
      return formatText(issue)
    case 'invalid_union':
      return unionText(issue.errors)
    case 'invalid_key':
    case 'invalid_element':
      return issue.issues.map(allowedBy).join(', ')
    case 'unrecognized_keys':
      return `no key ${issue.keys.join(', ')}`
  }
}

function sizeText(bound: string, origin: string, size: number): string {
  const unit = counted[origin]
  return unit === undefined ? `${bound} ${size}` : `${bound} ${size} ${unit}`
}

function formatText(issue: Extract<Issue, { code: 'invalid_format' }>): string {
  const { prefix, suffix, includes } = issue as { prefix?: string; suffix?: string; includes?: string }
  if (prefix !== undefined) return `a text that begins with ${prefix}`
  if (suffix !== undefined) return `a text that ends with ${suffix}`
  if (includes !== undefined) return `a text with ${includes} in it`
  return 'a text of another form'
}

function unionText(branches: readonly (readonly Issue[])[]): string {
  const all = branches.flatMap(([first]) => (first ? [allowedBy(first)] : []))
  return all.length === 0 ? 'another value' : [...new Set(all)].join(' or ')
}

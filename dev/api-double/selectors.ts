import { fieldAt, type KubeObject } from './kube-object.ts'
import { StatusError } from './status-error.ts'

export type Selector = (object: KubeObject) => boolean

/** Length of the longest accepted selector, in characters. */
const maxSelectorLength = 4096

/** @throws StatusError 400 for a selector that does not parse */
export function parseSelectors(query: URLSearchParams): Selector {
  const fields = parseFieldSelector(query.get('fieldSelector') ?? '')
  const labels = parseLabelSelector(query.get('labelSelector') ?? '')
  return (object) => fields.every((matches) => matches(object)) && labels.every((matches) => matches(object))
}

function parseFieldSelector(text: string): Selector[] {
  return split(text, /,/).map((term) => {
    const match = /^([\w.]+)\s*(==|=|!=)\s*(.*)$/.exec(term)
    if (!match) throw new StatusError(400, `invalid field selector: ${JSON.stringify(term)}`)
    const [, path = '', operator, wanted] = match
    return (object) => (String(fieldAt(object, path) ?? '') === wanted) === (operator !== '!=')
  })
}

function parseLabelSelector(text: string): Selector[] {
  return split(text, /,(?![^(]*\))/).map((term) => {
    const set = /^([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)$/.exec(term)
    if (set) {
      const values = split(set[3] ?? '', /,/)
      return (object) => values.includes(labelOf(object, set[1]) ?? '') === (set[2] === 'in')
    }
    const equality = /^([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)$/.exec(term)
    if (equality) {
      const [, key, operator, wanted] = equality
      return (object) => (labelOf(object, key) === wanted) === (operator !== '!=')
    }
    const existence = /^(!?)\s*([\w./-]+)$/.exec(term)
    if (!existence) throw new StatusError(400, `invalid label selector: ${JSON.stringify(term)}`)
    return (object) => (labelOf(object, existence[2]) !== undefined) === (existence[1] === '')
  })
}

function labelOf(object: KubeObject, key = ''): string | undefined {
  return object.metadata.labels?.[key]
}

function split(text: string, separator: RegExp): string[] {
  if (text.length > maxSelectorLength)
    throw new StatusError(400, `selector longer than ${maxSelectorLength} characters`)
  return text
    .split(separator)
    .map((term) => term.trim())
    .filter((term) => term !== '')
}

import { KasError } from '../../lib/errors.ts'

/** A query of very many parameters, such as the words of a long command. It is built once the caller is known. */

export type Query = [name: string, values: string[]][]

export interface LongQuery {
  /** number of parameters, including empty ones */
  readonly parameters: number
  /** decoded parameters that kas reads before it knows the caller */
  readonly query: Map<string, string[]>
  /** The query has parameters for kas itself. */
  readonly hasOwn: boolean
}

/** Parameters for kas itself, which it does not pass on. */
export const ownNames: ReadonlySet<string> = new Set([
  'gitlab-agent-id',
  'gitlab-csrf-token',
  'kas-websocket-token-request',
])

/** Parameters that kas reads: its own, those in the access log, and those that ask for an answer without end. */
const askedNames: ReadonlySet<string> = new Set([...ownNames, 'watch', 'follow', 'labelSelector', 'fieldSelector'])
const longestName = Math.max(...[...askedNames].map((name) => name.length))
/** Limit of values that are built, over all of these names. */
const maxAskedValues = 100
/** Limit of names that are read although they have encoded letters. No client encodes the names that kas reads. */
const maxEncodedNames = 1000

/**
 * Reads a query, and builds only the parameters that kas reads.
 *
 * @param max - a query with at most this many parameters is not long
 * @returns undefined: the query is not long
 * @throws KasError BAD_REQUEST
 */
export function readLongQuery(raw: string, max: number): LongQuery | undefined {
  const parameters = raw.length <= max ? 0 : countParameters(raw)
  if (parameters <= max) return undefined
  const query = new Map<string, string[]>()
  let values = 0
  let encoded = 0
  let hasOwn = false
  let end = 0
  for (let from = 0; from < raw.length; from = end + 1) {
    const found = raw.indexOf('&', from)
    end = found < 0 ? raw.length : found
    const text = nameText(raw, from, end)
    if (text === undefined) continue
    if (text.includes('%') && ++encoded > maxEncodedNames) throw bad('too many names in the query are encoded')
    const name = decode(text)
    if (!askedNames.has(name)) continue
    if (++values > maxAskedValues) throw bad(`the query has "${name}" too often`)
    hasOwn ||= ownNames.has(name)
    query.set(name, [...(query.get(name) ?? []), decode(raw.slice(from + text.length + 1, end))])
  }
  return { parameters, query, hasOwn }
}

/** @returns undefined: the name is empty, or too long to be one that kas reads */
function nameText(raw: string, from: number, end: number): string | undefined {
  const start = raw.slice(from, Math.min(end, from + longestName * 3 + 1))
  const mark = start.indexOf('=')
  const text = mark < 0 ? start : start.slice(0, mark)
  return text === '' || text.length > longestName * 3 ? undefined : text
}

function countParameters(raw: string): number {
  let count = 1
  for (let at = raw.indexOf('&'); at >= 0; at = raw.indexOf('&', at + 1)) count++
  return count
}

function decode(text: string): string {
  if (!/[%+]/.test(text)) return text
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw bad('the query has an invalid percent encoding or is not UTF-8')
  }
}

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}

import { firstOf } from '../../kubernetes/request/asked-stream.ts'
import { isActing, type RequestInfo } from '../../kubernetes/request/request-info.ts'
import type { Target } from '../../kubernetes/request/target.ts'
import { type AccessLine, bounds, cut } from './access-line.ts'

export type Asked = Pick<Target, 'path' | 'query'>

/** verbs with selectors: queries of other verbs are no selectors of the API server */
const selecting: ReadonlySet<string> = new Set(['list', 'watch', 'deletecollection'])
/** Path behind a proxy: workloads choose their own paths. */
const belowProxy = /\/proxy\/.*/s

/** Adds the request: verb, resource and object, selectors, and of an exec its program. */
export function addInfo(
  line: Partial<AccessLine>,
  info: RequestInfo,
  { path, query }: Asked,
  showsCommand = false,
): void {
  const { verb, resource, group, subresource, namespace, name } = info
  line.verb = cut(verb, bounds.name)
  if (resource === undefined) {
    line.path = cut(path.replace(belowProxy, '/proxy'), bounds.path)
    return
  }
  if (group !== '') line.group = cut(group, bounds.name)
  line.resource = cut(resource, bounds.name)
  if (subresource !== '') line.subresource = cut(subresource, bounds.name)
  if (namespace !== '') line.namespace = cut(namespace, bounds.name)
  if (name !== '') line.name = cut(name, bounds.name)
  if (selecting.has(verb) && !isActing(info)) addSelectors(line, query)
  if (subresource === 'exec') addCommand(line, query, showsCommand)
}

function addSelectors(line: Partial<AccessLine>, query: Target['query']): void {
  const labels = firstOf(query, 'labelSelector')
  const fields = firstOf(query, 'fieldSelector')
  if (labels) line.label_selector = cut(labels, bounds.selector)
  if (fields) line.field_selector = cut(fields, bounds.selector)
}

function addCommand(line: Partial<AccessLine>, query: Target['query'], isFull: boolean): void {
  const [, words = []] = query.find(([name]) => name === 'command') ?? []
  const [program] = words
  if (program === undefined) return
  line.program = cut(program, bounds.program)
  line.arguments = words.length - 1
  if (isFull) line.command = cutWords(words)
}

function cutWords(words: readonly string[]): string[] {
  const kept: string[] = []
  let left = bounds.command
  for (const word of words) {
    if (left <= 0) return [...kept, '…']
    kept.push(cut(word, left))
    left -= word.length
  }
  return kept
}

import { actingSubresources } from '../../call/safety.ts'
import { isPathSegment } from '../../lib/path-segment.ts'
import { firstOf, isTrue } from './asked-stream.ts'
import type { Target } from './target.ts'

/** Attributes of a request to an API server, as the API server resolves them for its rules and its audit log. */
export interface RequestInfo {
  /** get, list, watch, create, update, patch, delete, deletecollection, proxy; for no resource the lower-case method */
  readonly verb: string
  /** undefined: the request is for no resource, and the fields below are empty */
  readonly resource: string | undefined
  /** empty: the core group */
  readonly group: string
  readonly subresource: string
  /** empty: none, or all namespaces */
  readonly namespace: string
  /** empty: none */
  readonly name: string
}

/** Verbs by method; other methods have none. */
const verbs: Readonly<Record<string, string>> = {
  POST: 'create',
  GET: 'get',
  HEAD: 'get',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
}
const namespaceSubresources: ReadonlySet<string | undefined> = new Set(['status', 'finalize'])
const edges = /^\/+|\/+$/g

/**
 * Follows `NewRequestInfo` of k8s.io/apiserver `pkg/endpoints/request/requestinfo.go`, branch by branch. The cluster's
 * audit log has the same words for the request.
 */
export function requestInfo(method: string, { path, query }: Pick<Target, 'path' | 'query'>): RequestInfo {
  const parts = path.replaceAll(edges, '').split('/')
  const prefix = parts.shift()
  if (parts.length < 2 || (prefix !== 'api' && (prefix !== 'apis' || parts.length < 3))) return other(method)
  const group = prefix === 'api' ? '' : (parts.shift() as string)
  parts.shift() // the version
  const special = parts[0] === 'watch' || parts[0] === 'proxy' ? parts.shift() : undefined
  if (parts.length === 0) return other(method) // the API server refuses it
  const [, namespace = ''] = parts[0] === 'namespaces' ? parts : []
  const isOfNamespace = parts[0] === 'namespaces' && parts.length > 2 && !namespaceSubresources.has(parts[2])
  const [resource = '', named = '', below = ''] = isOfNamespace ? parts.slice(2) : parts
  const subresource = special === 'proxy' ? '' : below
  const asked = special ?? verbs[method] ?? ''
  if (named !== '') return { verb: asked, resource, group, subresource, namespace, name: named }
  if (asked === 'delete') return { verb: 'deletecollection', resource, group, subresource, namespace, name: '' }
  if (asked !== 'get') return { verb: asked, resource, group, subresource, namespace, name: '' }
  const verb = isTrue(query, 'watch') ? 'watch' : 'list'
  return { verb, resource, group, subresource, namespace, name: nameSelected(query) }
}

/** True if the request acts on a pod, or is passed on to a workload. */
export function isActing({ subresource, verb }: Pick<RequestInfo, 'subresource' | 'verb'>): boolean {
  return verb === 'proxy' || actingSubresources.has(subresource)
}

function other(method: string): RequestInfo {
  return { verb: method.toLowerCase(), resource: undefined, group: '', subresource: '', namespace: '', name: '' }
}

/** Returns the name that a list selects, which counts as a request for the object with that name. */
function nameSelected(query: Target['query']): string {
  const terms = firstOf(query, 'fieldSelector')?.split(',') ?? []
  for (const term of terms) {
    const [, name] = /^metadata\.name==?([^=!]*)$/.exec(term) ?? []
    if (name !== undefined) return isPathSegment(name) ? name : ''
  }
  return ''
}

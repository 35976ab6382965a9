import { actingSubresources } from '../../call/safety.ts'
import { firstOf, isTrue } from './asked-stream.ts'
import type { Target } from './target.ts'

/** What a request asks of an API server, as that resolves it for its rules and its own audit log. */
export interface RequestInfo {
  /** of a resource: get, list, watch, create, update, patch, delete, deletecollection, proxy; else the method in lower case */
  readonly verb: string
  /** undefined: no resource is asked for, and of what follows there is nothing */
  readonly resource: string | undefined
  /** empty: the core group */
  readonly group: string
  readonly subresource: string
  /** empty: none, or all */
  readonly namespace: string
  /** empty: none */
  readonly name: string
}

/** By method; others have none. */
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
 * `NewRequestInfo` of k8s.io/apiserver `pkg/endpoints/request/requestinfo.go`, which this follows branch by branch: what it
 * has authorized stands under these words in the cluster's audit log.
 */
export function requestInfo(method: string, { path, query }: Pick<Target, 'path' | 'query'>): RequestInfo {
  const parts = path.replaceAll(edges, '').split('/')
  const prefix = parts.shift()
  if (parts.length < 2 || (prefix !== 'api' && (prefix !== 'apis' || parts.length < 3))) return other(method)
  const group = prefix === 'api' ? '' : (parts.shift() as string)
  parts.shift() // the version
  const special = parts[0] === 'watch' || parts[0] === 'proxy' ? parts.shift() : undefined
  if (parts.length === 0) return other(method) // refused there
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

/** It acts on a pod, or passes the request on to what runs there. */
export function isActing({ subresource, verb }: Pick<RequestInfo, 'subresource' | 'verb'>): boolean {
  return verb === 'proxy' || actingSubresources.has(subresource)
}

function other(method: string): RequestInfo {
  return { verb: method.toLowerCase(), resource: undefined, group: '', subresource: '', namespace: '', name: '' }
}

/** A list of what has this name, which counts as if it were asked for by it. */
function nameSelected(query: Target['query']): string {
  const terms = firstOf(query, 'fieldSelector')?.split(',') ?? []
  for (const term of terms) {
    const [, name] = /^metadata\.name==?([^=!]*)$/.exec(term) ?? []
    if (name !== undefined) return isSegment(name) ? name : ''
  }
  return ''
}

/** `IsValidPathSegmentName` of k8s.io/apimachinery `pkg/api/validation/path`. */
function isSegment(name: string): boolean {
  return name !== '.' && name !== '..' && !/[/%]/.test(name)
}

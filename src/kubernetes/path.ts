import type { GroupVersionResource } from './kind.ts'

/**
 * Paths of the Kubernetes API. Each segment is encoded, so that a name stays in its own segment. Encoding leaves `.`
 * and `..` as they are: callers that take names from others refuse these.
 */

/** Lists the groups; with the media type of discovery also all of their resources. */
export const groupsPath = '/apis'

/** `/apis/apps`; `/api` for the core group. */
export function groupPath(group: string): string {
  return group === '' ? '/api' : `/apis/${encodeURIComponent(group)}`
}

/** `/apis/apps/v1`; `/api/v1` for the core group. */
export function versionPath({ group, version }: Pick<GroupVersionResource, 'group' | 'version'>): string {
  return `${groupPath(group)}/${encodeURIComponent(version)}`
}

/** @param namespace - ignored for a resource without namespaces; empty: all namespaces */
export function collectionPath(resource: GroupVersionResource, namespace = ''): string {
  const { plural, isNamespaced = true } = resource
  const within = isNamespaced && namespace !== '' ? `/namespaces/${encodeURIComponent(namespace)}` : ''
  return `${versionPath(resource)}${within}/${encodeURIComponent(plural)}`
}

export function objectPath(
  resource: GroupVersionResource,
  {
    namespace,
    name,
    subresource,
  }: {
    /** empty or absent: the object is in no namespace */
    readonly namespace?: string
    readonly name: string
    /** `status`, for example */
    readonly subresource?: string
  },
): string {
  const path = `${collectionPath(resource, namespace)}/${encodeURIComponent(name)}`
  return subresource === undefined ? path : `${path}/${encodeURIComponent(subresource)}`
}

/** @param query - in this order; empty and absent values are left out */
export function withQuery(
  path: string,
  query: Readonly<Record<string, string | number | boolean | undefined>>,
): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  if (given.length === 0) return path
  const parameters = given.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value ?? '')}`)
  return `${path}${path.includes('?') ? '&' : '?'}${parameters.join('&')}`
}

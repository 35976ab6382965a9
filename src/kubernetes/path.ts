import type { GroupVersionResource } from './kind.ts'

/**
 * Paths of the Kubernetes API: each segment is encoded, so that a name stays in its own. Encoding leaves `.` and `..`: who
 * takes names from others refuses them.
 */

/** Lists the groups, and with the media type of discovery all that is in them. */
export const groupsPath = '/apis'

/** `/apis/apps`; `/api` of the core group. */
export function groupPath(group: string): string {
  return group === '' ? '/api' : `/apis/${encodeURIComponent(group)}`
}

/** `/apis/apps/v1`; `/api/v1` of the core group. */
export function versionPath({ group, version }: Pick<GroupVersionResource, 'group' | 'version'>): string {
  return `${groupPath(group)}/${encodeURIComponent(version)}`
}

/** @param namespace - of no account to a resource that is in none; empty: all of them */
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
    /** empty or absent: it is in none */
    readonly namespace?: string
    readonly name: string
    /** such as `status` */
    readonly subresource?: string
  },
): string {
  const path = `${collectionPath(resource, namespace)}/${encodeURIComponent(name)}`
  return subresource === undefined ? path : `${path}/${encodeURIComponent(subresource)}`
}

/** @param query - in this order; what is empty or absent is left out */
export function withQuery(
  path: string,
  query: Readonly<Record<string, string | number | boolean | undefined>>,
): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  if (given.length === 0) return path
  const parameters = given.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value ?? '')}`)
  return `${path}${path.includes('?') ? '&' : '?'}${parameters.join('&')}`
}

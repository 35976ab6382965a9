import { type Resource, resources } from './resources.ts'

/** Target of a request, by its path and query. */
export interface RequestTarget {
  readonly resource: Resource
  readonly namespace: string | undefined
  readonly name: string | undefined
  readonly subresource: string | undefined
  readonly query: URLSearchParams
}

/**
 * Parses paths such as `/api/v1/namespaces/demo/pods/clock/log`.
 *
 * @returns undefined if no served resource has this path
 */
export function parseTarget(url: URL): RequestTarget | undefined {
  const parts = url.pathname.split('/').filter((part) => part !== '')
  const decoded = decodeAll(parts)
  if (!decoded) return undefined
  const [group, version, rest] =
    decoded[0] === 'api'
      ? ['', decoded[1], decoded.slice(2)]
      : decoded[0] === 'apis'
        ? [decoded[1], decoded[2], decoded.slice(3)]
        : [undefined, undefined, []]
  const inNamespace = rest[0] === 'namespaces' && rest.length > 2
  const namespace = inNamespace ? rest[1] : undefined
  const [plural, name, subresource, ...more] = inNamespace ? rest.slice(2) : rest
  if (more.length > 0) return undefined
  const resource = resources.find((r) => r.group === group && r.version === version && r.name === plural)
  if (!resource || (inNamespace && !resource.namespaced)) return undefined
  if (name !== undefined && resource.namespaced && !inNamespace) return undefined
  return { resource, namespace, name, subresource, query: url.searchParams }
}

function decodeAll(parts: readonly string[]): string[] | undefined {
  try {
    return parts.map((part) => decodeURIComponent(part))
  } catch {
    return undefined // a path that does not decode names nothing
  }
}

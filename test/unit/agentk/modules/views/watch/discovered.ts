/** A resource as aggregated discovery describes it. */
export function resource(
  plural: string,
  kind: string,
  options: { verbs?: readonly string[]; scope?: string; subresources?: readonly string[] } = {},
) {
  const { verbs = ['get', 'list', 'watch'], scope = 'Namespaced', subresources = [] } = options
  return {
    resource: plural,
    responseKind: { group: '', version: '', kind },
    scope,
    verbs,
    subresources: subresources.map((subresource) => ({ subresource })),
  }
}

export interface Version {
  readonly version: string
  readonly freshness?: string
  readonly resources: readonly ReturnType<typeof resource>[]
}

/** Groups with their versions, the preferred one first. */
export function aggregated(groups: Readonly<Record<string, readonly Version[]>>) {
  const items = Object.entries(groups).map(([name, versions]) => ({
    metadata: name === '' ? {} : { name },
    versions: versions.map((version) => ({ freshness: 'Current', ...version })),
  }))
  return { kind: 'APIGroupDiscoveryList', apiVersion: 'apidiscovery.k8s.io/v2', items }
}

/** A collection of objects in one version, as in paths. */
export interface GroupVersionResource {
  /** empty: the core group */
  readonly group: string
  readonly version: string
  /** `deployments` */
  readonly plural: string
  /** false: its objects are in no namespace; absent: not known here */
  readonly isNamespaced?: boolean
}

/** A kind in the version that is used. All callers get the same object. */
export interface ResourceKind extends GroupVersionResource {
  /** as `kindKey` writes it */
  readonly key: string
  readonly isNamespaced: boolean
  /** absent: not known */
  readonly names?: KindNames | undefined
}

/** Further names of a kind from discovery, besides kind and plural. */
export interface KindNames {
  readonly singular: string
  readonly short: readonly string[]
  readonly categories: readonly string[]
}

const core = { group: '', version: 'v1' }
const discovery = { group: 'discovery.k8s.io', version: 'v1' }
const authorization = { group: 'authorization.k8s.io', version: 'v1' }

/** Kubernetes' own resources that this project reads or writes by name. */
export const builtIn = {
  namespaces: { ...core, plural: 'namespaces', isNamespaced: false },
  pods: { ...core, plural: 'pods' },
  secrets: { ...core, plural: 'secrets' },
  configMaps: { ...core, plural: 'configmaps' },
  events: { ...core, plural: 'events' },
  endpoints: { ...core, plural: 'endpoints' },
  endpointSlices: { ...discovery, plural: 'endpointslices' },
  leases: { group: 'coordination.k8s.io', version: 'v1', plural: 'leases' },
  horizontalPodAutoscalers: { group: 'autoscaling', version: 'v2', plural: 'horizontalpodautoscalers' },
  storageClasses: { group: 'storage.k8s.io', version: 'v1', plural: 'storageclasses', isNamespaced: false },
  accessReviews: { ...authorization, plural: 'selfsubjectaccessreviews', isNamespaced: false },
  rulesReviews: { ...authorization, plural: 'selfsubjectrulesreviews', isNamespaced: false },
  apiServices: { group: 'apiregistration.k8s.io', version: 'v1', plural: 'apiservices', isNamespaced: false },
  customResourceDefinitions: {
    group: 'apiextensions.k8s.io',
    version: 'v1',
    plural: 'customresourcedefinitions',
    isNamespaced: false,
  },
} as const satisfies Readonly<Record<string, GroupVersionResource>>

/** Formats `apiVersion` as in objects: `apps/v1`; `v1` for the core group. */
export function apiVersionOf({ group, version }: Pick<GroupVersionResource, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`
}

/** Parses the text that `apiVersionOf` writes. */
export function parseApiVersion(apiVersion: string): { readonly group: string; readonly version: string } {
  const slash = apiVersion.indexOf('/')
  return { group: apiVersion.slice(0, Math.max(0, slash)), version: apiVersion.slice(slash + 1) }
}

/** Formats `group/Kind`, for any version; only `Kind` for the core group. */
export function kindKey(group: string, kind: string): string {
  return group === '' ? kind : `${group}/${kind}`
}

/** Parses the text that `kindKey` writes. */
export function parseKindKey(key: string): { readonly group: string; readonly kind: string } {
  const slash = key.indexOf('/')
  return { group: key.slice(0, Math.max(0, slash)), kind: key.slice(slash + 1) }
}

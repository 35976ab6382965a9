import type { KindNames } from './kind.ts'
import { at, type KubernetesObject, listAt, textAt } from './object.ts'

/** What the API server answers for `/api` and `/apis`, below which groups and their versions stand. */

/** One version of a group that the API server serves, whoever described it. */
export interface GroupVersion {
  readonly group: string
  readonly version: string
  /** not all of it is known now */
  readonly isStale: boolean
  readonly resources: readonly Resource[]
}

export interface Resource {
  /** as in paths: `deployments` */
  readonly plural: string
  readonly kind: string
  readonly isNamespaced: boolean
  readonly verbs: readonly unknown[]
  /** it has a `status` of its own */
  readonly hasStatus: boolean
  readonly names: KindNames
}

/** Servers from 1.30 and from 1.26 say all at once, older ones group by group. */
export const discoveryAccept = [
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList',
  'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList',
  'application/json',
].join(',')

/** The new form, in the server's order, each group's preferred version first. @returns undefined: it is another */
export function aggregatedVersions(body: unknown): GroupVersion[] | undefined {
  if (textAt(body, 'kind') !== 'APIGroupDiscoveryList' || !Array.isArray(at(body, 'items'))) return undefined
  return listAt(body, 'items').flatMap((item) =>
    listAt(item, 'versions').map((version) => ({
      group: textAt(item, 'metadata.name'),
      version: textAt(version, 'version'),
      isStale: textAt(version, 'freshness') === 'Stale',
      resources: listAt(version, 'resources').map((resource) => ({
        plural: textAt(resource, 'resource'),
        kind: textAt(resource, 'responseKind.kind'),
        isNamespaced: textAt(resource, 'scope') === 'Namespaced',
        verbs: arrayAt(resource, 'verbs'),
        hasStatus: listAt(resource, 'subresources').some((one) => textAt(one, 'subresource') === 'status'),
        names: namesOf(resource, 'singularResource'),
      })),
    })),
  )
}

export interface NamedVersion {
  readonly group: string
  readonly version: string
}

/** The old form; of each group the preferred version first. @returns undefined: it is neither that of `/api` nor of `/apis` */
export function namedVersions(body: unknown): NamedVersion[] | undefined {
  const versions = at(body, 'versions')
  if (Array.isArray(versions)) return versions.map((version) => ({ group: '', version: String(version) }))
  return Array.isArray(at(body, 'groups')) ? listAt(body, 'groups').flatMap(versionsOfGroup) : undefined
}

/** @param group - as it stands in the list of groups, and below its own path. @returns the preferred version first */
export function versionsOfGroup(group: unknown): NamedVersion[] {
  const preferred = textAt(group, 'preferredVersion.version')
  const all = listAt(group, 'versions').map((version) => textAt(version, 'version'))
  const sorted = [...all.filter((version) => version === preferred), ...all.filter((version) => version !== preferred)]
  return sorted.map((version) => ({ group: textAt(group, 'name'), version }))
}

/** Of one version of a group. @returns undefined: it is no list of them */
export function resourcesOf(body: unknown): Resource[] | undefined {
  if (!Array.isArray(at(body, 'resources'))) return undefined
  const all = listAt(body, 'resources')
  const names = new Set(all.map((resource) => textAt(resource, 'name')))
  return all.map((resource) => ({
    plural: textAt(resource, 'name'),
    kind: textAt(resource, 'kind'),
    isNamespaced: resource.namespaced === true,
    verbs: arrayAt(resource, 'verbs'),
    hasStatus: names.has(`${textAt(resource, 'name')}/status`),
    names: namesOf(resource, 'singularName'),
  }))
}

/** Short names and categories of a kind: more than people type. */
const maxNames = 16

function namesOf(resource: KubernetesObject, singular: string): KindNames {
  const texts = (member: string) =>
    arrayAt(resource, member)
      .filter((one) => typeof one === 'string')
      .slice(0, maxNames)
  return { singular: textAt(resource, singular), short: texts('shortNames'), categories: texts('categories') }
}

function arrayAt(value: unknown, path: string): readonly unknown[] {
  const array = at(value, path)
  return Array.isArray(array) ? array : []
}

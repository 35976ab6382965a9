import type { KindNames } from './kind.ts'
import { at, type KubernetesObject, listAt, textAt } from './object.ts'

/** Discovery: the API server's answers for `/api` and `/apis`, which list groups and their versions. */

/** One version of a group that the API server serves, from either form of discovery. */
export interface GroupVersion {
  readonly group: string
  readonly version: string
  /** The API server does not know all of it now. */
  readonly isStale: boolean
  readonly resources: readonly Resource[]
}

export interface Resource {
  /** as in paths: `deployments` */
  readonly plural: string
  readonly kind: string
  readonly isNamespaced: boolean
  readonly verbs: readonly unknown[]
  /** the resource has a `status` subresource */
  readonly hasStatus: boolean
  readonly names: KindNames
}

/** Servers from 1.30 (v2) and 1.26 (v2beta1) on list everything in one answer, older servers list it group by group. */
export const discoveryAccept = [
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList',
  'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList',
  'application/json',
].join(',')

/** Reads the new form: in the server's order, each group's preferred version first. @returns undefined: another form */
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

/** Reads the old form: each group's preferred version first. @returns undefined: no answer of `/api` or `/apis` */
export function namedVersions(body: unknown): NamedVersion[] | undefined {
  const versions = at(body, 'versions')
  if (Array.isArray(versions)) return versions.map((version) => ({ group: '', version: String(version) }))
  return Array.isArray(at(body, 'groups')) ? listAt(body, 'groups').flatMap(versionsOfGroup) : undefined
}

/** @param group - from the list of groups, or from the group's own path. @returns the preferred version first */
export function versionsOfGroup(group: unknown): NamedVersion[] {
  const preferred = textAt(group, 'preferredVersion.version')
  const all = listAt(group, 'versions').map((version) => textAt(version, 'version'))
  const sorted = [...all.filter((version) => version === preferred), ...all.filter((version) => version !== preferred)]
  return sorted.map((version) => ({ group: textAt(group, 'name'), version }))
}

/** Reads the resources of one version of a group. @returns undefined: the body is no list of resources */
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

/** Limit of short names, and of categories, of a kind. */
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

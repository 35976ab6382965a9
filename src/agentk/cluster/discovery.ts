import type { KindNames } from '../../kubernetes/kind.ts'
import { at, type KubernetesObject, listAt, textAt } from '../../kubernetes/object.ts'
import { KasError } from '../../lib/errors.ts'
import type { ApiClient } from './api-client.ts'

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

/** Some 3 KB a kind. */
const maxDiscoveryBytes = 16 * 1024 * 1024
/** Servers from 1.30 and from 1.26 say all at once, older ones group by group. */
const accept = [
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList',
  'application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList',
  'application/json',
].join(',')

/**
 * All that the API server serves, by group in its order, each group's preferred version first.
 *
 * @throws KasError UNREACHABLE, or the connection's error
 */
export async function discoverVersions(client: Pick<ApiClient, 'json'>, signal: AbortSignal): Promise<GroupVersion[]> {
  const ask = async (path: string) => {
    const { status, body } = await client.json('GET', path, undefined, signal, { accept, maxBytes: maxDiscoveryBytes })
    return { status, body: (body ?? {}) as KubernetesObject }
  }
  const versions: GroupVersion[] = []
  for (const root of ['/api', '/apis']) {
    const { status, body } = await ask(root)
    if (status !== 200) {
      const detail = `the API server answered ${status} for ${root}`
      throw new KasError({ code: 'UNREACHABLE', detail, httpStatus: status })
    }
    if (body.kind === 'APIGroupDiscoveryList' && Array.isArray(body.items)) versions.push(...aggregated(body))
    else for (const each of namedIn(root, body)) versions.push(await described(ask, root, each))
  }
  return versions
}

function aggregated(body: KubernetesObject): GroupVersion[] {
  return listAt(body, 'items').flatMap((item) =>
    listAt(item, 'versions').map((version) => ({
      group: textAt(item, 'metadata.name'),
      version: textAt(version, 'version'),
      isStale: textAt(version, 'freshness') === 'Stale',
      resources: listAt(version, 'resources').map((resource) => ({
        plural: textAt(resource, 'resource'),
        kind: textAt(resource, 'responseKind.kind'),
        isNamespaced: textAt(resource, 'scope') === 'Namespaced',
        verbs: verbsOf(resource),
        hasStatus: listAt(resource, 'subresources').some((one) => textAt(one, 'subresource') === 'status'),
        names: namesOf(resource, 'singularResource'),
      })),
    })),
  )
}

interface NamedVersion {
  readonly group: string
  readonly version: string
}

/** The old form; of each group the preferred version first. @throws KasError UNREACHABLE: it is neither */
function namedIn(root: string, body: KubernetesObject): NamedVersion[] {
  const { versions, groups } = body
  if (Array.isArray(versions)) return versions.map((version) => ({ group: '', version: String(version) }))
  if (!Array.isArray(groups)) {
    throw new KasError({ code: 'UNREACHABLE', detail: `what the API server answered for ${root} is no discovery` })
  }
  return listAt(body, 'groups').flatMap((group) => {
    const preferred = textAt(group, 'preferredVersion.version')
    const all = listAt(group, 'versions').map((version) => textAt(version, 'version'))
    const sorted = [
      ...all.filter((version) => version === preferred),
      ...all.filter((version) => version !== preferred),
    ]
    return sorted.map((version) => ({ group: textAt(group, 'name'), version }))
  })
}

/** A group whose own server does not answer is stale. */
async function described(
  ask: (path: string) => Promise<{ status: number; body: KubernetesObject }>,
  root: string,
  { group, version }: NamedVersion,
): Promise<GroupVersion> {
  const { status, body } = await ask(group === '' ? `${root}/${version}` : `${root}/${group}/${version}`)
  const isStale = status !== 200 || !Array.isArray(body.resources)
  const all = isStale ? [] : listAt(body, 'resources')
  const names = new Set(all.map((resource) => textAt(resource, 'name')))
  const resources = all.map((resource) => ({
    plural: textAt(resource, 'name'),
    kind: textAt(resource, 'kind'),
    isNamespaced: resource.namespaced === true,
    verbs: verbsOf(resource),
    hasStatus: names.has(`${textAt(resource, 'name')}/status`),
    names: namesOf(resource, 'singularName'),
  }))
  return { group, version, isStale, resources }
}

/** Short names and categories of a kind: more than people type. */
const maxNames = 16

function namesOf(resource: KubernetesObject, singular: string): KindNames {
  const texts = (member: string) => {
    const all = at(resource, member)
    return Array.isArray(all) ? all.filter((one) => typeof one === 'string').slice(0, maxNames) : []
  }
  return { singular: textAt(resource, singular), short: texts('shortNames'), categories: texts('categories') }
}

function verbsOf(resource: KubernetesObject): readonly unknown[] {
  const verbs = at(resource, 'verbs')
  return Array.isArray(verbs) ? verbs : []
}

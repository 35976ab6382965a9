import { apiVersionOf, type Resource, resources } from './resources.ts'

/** Shown by `kubectl version`: near enough to current clients that they do not warn. */
export const serverVersion = { major: '1', minor: '34', gitVersion: 'v1.34.0+kas-api-double' }

const groups = [...new Set(resources.map((resource) => resource.group))].filter((group) => group !== '')

/** Discovery in its plain form, version and health: the documents that do not depend on the store. */
export function discoveryDocument(path: string): unknown {
  switch (path.replace(/\/$/, '')) {
    case '/version':
      return {
        ...serverVersion,
        gitCommit: '',
        gitTreeState: '',
        buildDate: '',
        goVersion: '',
        compiler: '',
        platform: '',
      }
    case '/api':
      return { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] }
    case '/apis':
      return { kind: 'APIGroupList', apiVersion: 'v1', groups: groups.map(groupOf) }
    case '/api/v1':
      return resourceList('', 'v1')
  }
  const [, root, group, version, ...more] = path.replace(/\/$/, '').split('/')
  if (root !== 'apis' || !group || !groups.includes(group) || more.length > 0) return undefined
  if (version === undefined) return { kind: 'APIGroup', apiVersion: 'v1', ...groupOf(group) }
  return version === 'v1' ? resourceList(group, version) : undefined
}

function groupOf(group: string) {
  const versions = [{ groupVersion: `${group}/v1`, version: 'v1' }]
  return { name: group, versions, preferredVersion: versions[0] }
}

function resourceList(group: string, version: string) {
  const served = resources.filter((resource) => resource.group === group && resource.version === version)
  return {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: group === '' ? version : `${group}/${version}`,
    resources: served.flatMap(entriesOf),
  }
}

function entriesOf(resource: Resource): Record<string, unknown>[] {
  const { name, singular, namespaced, kind, verbs, shortNames, categories } = resource
  const own = { name, singularName: singular, namespaced, kind, verbs, shortNames, categories }
  const below = resource.subresources.map((subresource) => ({
    name: `${name}/${subresource.name}`,
    singularName: '',
    namespaced,
    kind: subresource.kind,
    verbs: subresource.verbs,
  }))
  return [own, ...below]
}

/**
 * The part of `/openapi/v3` that shows kubectl that the server checks fields itself. kubectl then sends objects
 * unchanged instead of asking for schemas.
 */
export function openApiDocument(path: string): unknown {
  const versions = [...new Set(resources.map(apiVersionOf))]
  const root = (apiVersion: string) => (apiVersion.includes('/') ? `apis/${apiVersion}` : `api/${apiVersion}`)
  if (path === '/openapi/v3') {
    const entries = versions.map((version) => [root(version), { serverRelativeURL: `/openapi/v3/${root(version)}` }])
    return { paths: Object.fromEntries(entries) }
  }
  const wanted = versions.find((version) => path === `/openapi/v3/${root(version)}`)
  if (wanted === undefined) return undefined
  const served = resources.filter((resource) => apiVersionOf(resource) === wanted)
  return {
    openapi: '3.0.0',
    info: { title: 'kas API double', version: serverVersion.gitVersion },
    paths: Object.fromEntries(served.map((resource) => [openApiPath(root(wanted), resource), openApiItem(resource)])),
    components: { schemas: {} },
  }
}

function openApiPath(root: string, resource: Resource): string {
  return resource.namespaced
    ? `/${root}/namespaces/{namespace}/${resource.name}/{name}`
    : `/${root}/${resource.name}/{name}`
}

function openApiItem({ group, version, kind }: Resource) {
  const parameters = ['dryRun', 'fieldManager', 'fieldValidation'].map((name) => ({
    name,
    in: 'query',
    schema: { type: 'string' },
  }))
  return { patch: { parameters, responses: {}, 'x-kubernetes-group-version-kind': { group, version, kind } } }
}

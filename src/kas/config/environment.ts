import { addressForms, parseListenAddress } from './listen-address.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** How other replicas reach this one's private API, as packages set it (wire-protocol 4.3). */
export interface OwnPrivateApi {
  readonly url?: string
  readonly cidrs?: readonly string[]
  readonly port?: number
  readonly scheme?: 'grpc' | 'grpcs'
  readonly host?: string
}

export interface EnvironmentSettings {
  /** goes over the same keys of the file's `cluster` block */
  readonly cluster: {
    readonly name?: string
    readonly discovery?: {
      readonly kubernetes?: { service: string; namespace?: string }
      readonly dns?: string
      readonly static?: readonly string[]
    }
    readonly listen?: { address: string }
  }
  readonly ownPrivateApi: OwnPrivateApi
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

/**
 * What the environment sets: `KAS_CLUSTER_*` for packages whose template takes no extra keys, `POD_NAME`,
 * `POD_NAMESPACE`, `OWN_PRIVATE_API_*`. An empty variable counts as absent.
 *
 * @see doc/configuration.md "Environment"
 */
export function environmentSettings(env: Environment): EnvironmentSettings {
  const get = (name: string) => env[name]?.trim() || undefined
  const list = (name: string) =>
    get(name)
      ?.split(',')
      .map((one) => one.trim())
      .filter((one) => one !== '')
  const problems: string[] = []
  const warnings: string[] = []

  const name = get('KAS_CLUSTER_NAME') ?? get('POD_NAME')
  const service = get('KAS_CLUSTER_SERVICE')
  const dns = get('KAS_CLUSTER_DNS')
  const peers = list('KAS_CLUSTER_STATIC')
  const listen = get('KAS_CLUSTER_LISTEN')
  const discovery = {
    ...(service ? { kubernetes: serviceOf(service, get('POD_NAMESPACE')) } : {}),
    ...(dns ? { dns } : {}),
    ...(peers ? { static: peers } : {}),
  }

  if (listen && !parseListenAddress('tcp', listen)) {
    problems.push(`KAS_CLUSTER_LISTEN: found "${listen}", allowed: ${addressForms}`)
  }

  const url = get('OWN_PRIVATE_API_URL')
  const cidrs = list('OWN_PRIVATE_API_CIDR')
  const port = get('OWN_PRIVATE_API_PORT')
  const scheme = get('OWN_PRIVATE_API_SCHEME')
  const host = get('OWN_PRIVATE_API_HOST')
  if (url && cidrs) warnings.push('OWN_PRIVATE_API_URL and OWN_PRIVATE_API_CIDR are both set, the URL is used')
  if (port && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535)) {
    problems.push(`OWN_PRIVATE_API_PORT: found "${port}", allowed: a port from 0 to 65535`)
  }
  if (scheme && scheme !== 'grpc' && scheme !== 'grpcs') {
    problems.push(`OWN_PRIVATE_API_SCHEME: found "${scheme}", allowed: one of grpc, grpcs`)
  }
  return {
    cluster: {
      ...(name ? { name } : {}),
      ...(Object.keys(discovery).length > 0 ? { discovery } : {}),
      ...(listen ? { listen: { address: listen } } : {}),
    },
    ownPrivateApi: {
      ...(url ? { url } : {}),
      ...(cidrs && !url ? { cidrs } : {}),
      ...(port ? { port: Number(port) } : {}),
      ...(scheme === 'grpc' || scheme === 'grpcs' ? { scheme } : {}),
      ...(host ? { host } : {}),
    },
    problems,
    warnings,
  }
}

/** `service` or `namespace/service`. */
function serviceOf(text: string, ownNamespace: string | undefined): { service: string; namespace?: string } {
  const [first = '', second] = text.split('/')
  if (second !== undefined) return { service: second, namespace: first }
  return { service: first, ...(ownNamespace ? { namespace: ownNamespace } : {}) }
}

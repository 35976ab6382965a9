import { type DiscoveryFromEnvironment, discoveryFromEnvironment } from './discovery-environment.ts'
import { addressForms, isSocketPath, parseListenAddress, socketPathForm } from './listen-address.ts'

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
    readonly discovery?: DiscoveryFromEnvironment
    readonly listen?: { address: string }
  }
  /** `ops.socket`, unless the file has it */
  readonly opsSocket?: string
  readonly ownPrivateApi: OwnPrivateApi
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

/**
 * What the environment sets: `KAS_CLUSTER_*` for packages whose template takes no extra keys, `POD_NAME`,
 * `POD_NAMESPACE`, `KAS_OPS_SOCKET`, `OWN_PRIVATE_API_*`. An empty variable counts as absent.
 *
 * @see doc/configuration.md "Environment"
 */
export function environmentSettings(env: Environment): EnvironmentSettings {
  const problems: string[] = []
  const warnings: string[] = []
  const name = textOf(env, 'KAS_CLUSTER_NAME') ?? textOf(env, 'POD_NAME')
  const listen = textOf(env, 'KAS_CLUSTER_LISTEN')
  const discovery = discoveryFromEnvironment(env, problems)
  const opsSocket = textOf(env, 'KAS_OPS_SOCKET')
  if (listen && !parseListenAddress('tcp', listen)) {
    problems.push(`KAS_CLUSTER_LISTEN: found "${listen}", allowed: ${addressForms}`)
  }
  if (opsSocket && !isSocketPath(opsSocket)) {
    problems.push(`KAS_OPS_SOCKET: found "${opsSocket}", allowed: ${socketPathForm}`)
  }
  return {
    cluster: {
      ...(name ? { name } : {}),
      ...(discovery ? { discovery } : {}),
      ...(listen ? { listen: { address: listen } } : {}),
    },
    ...(opsSocket ? { opsSocket } : {}),
    ownPrivateApi: ownPrivateApi(env, { problems, warnings }),
    problems,
    warnings,
  }
}

function textOf(env: Environment, name: string): string | undefined {
  return env[name]?.trim() || undefined
}

function listOf(env: Environment, name: string): string[] | undefined {
  const parts = textOf(env, name)?.split(',')
  return parts?.map((one) => one.trim()).filter((one) => one !== '')
}

function ownPrivateApi(env: Environment, told: { problems: string[]; warnings: string[] }): OwnPrivateApi {
  const url = textOf(env, 'OWN_PRIVATE_API_URL')
  const cidrs = listOf(env, 'OWN_PRIVATE_API_CIDR')
  const port = textOf(env, 'OWN_PRIVATE_API_PORT')
  const scheme = textOf(env, 'OWN_PRIVATE_API_SCHEME')
  const host = textOf(env, 'OWN_PRIVATE_API_HOST')
  if (url && cidrs) told.warnings.push('OWN_PRIVATE_API_URL and OWN_PRIVATE_API_CIDR are both set, the URL is used')
  if (port && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535)) {
    told.problems.push(`OWN_PRIVATE_API_PORT: found "${port}", allowed: a port from 0 to 65535`)
  }
  if (scheme && scheme !== 'grpc' && scheme !== 'grpcs') {
    told.problems.push(`OWN_PRIVATE_API_SCHEME: found "${scheme}", allowed: one of grpc, grpcs`)
  }
  return {
    ...(url ? { url } : {}),
    ...(cidrs && !url ? { cidrs } : {}),
    ...(port ? { port: Number(port) } : {}),
    ...(scheme === 'grpc' || scheme === 'grpcs' ? { scheme } : {}),
    ...(host ? { host } : {}),
  }
}

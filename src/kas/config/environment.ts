import type { ConfigWarning } from '../../lib/config.ts'
import { type ClusterTexts, clusterNameOf, clusterTextsOf } from './cluster-texts.ts'
import { type DiscoveryFromEnvironment, discoveryFromEnvironment } from './discovery.ts'
import { addressForms, isSocketPath, parseListenAddress, socketPathForm } from './listen-address.ts'
import { type OwnPrivateApi, ownPrivateApi } from './own-private-api.ts'
import { trustedProxiesOf } from './trusted-proxies.ts'

type Environment = Readonly<Record<string, string | undefined>>

export interface EnvironmentSettings {
  /** replaces the same keys of the file's `cluster` block */
  readonly cluster: {
    readonly name?: string
    readonly discovery?: DiscoveryFromEnvironment
    readonly listen?: { address: string }
    readonly texts: ClusterTexts
  }
  /** `ops.socket`, unless the file has it */
  readonly opsSocket?: string
  /** `trusted_proxies` of both listeners, if the file has none */
  readonly trustedProxies: readonly string[]
  readonly ownPrivateApi: OwnPrivateApi
  readonly problems: readonly string[]
  readonly warnings: readonly ConfigWarning[]
}

/**
 * Reads the settings of the environment: `KAS_CLUSTER_*` for packages whose template accepts no extra keys, `POD_NAME`,
 * `POD_NAMESPACE`, `KAS_OPS_SOCKET`, `KAS_TRUSTED_PROXIES`, `OWN_PRIVATE_API_*`. An empty variable counts as absent.
 *
 * @see doc/reference/configuration.md "Environment"
 */
export function environmentSettings(env: Environment): EnvironmentSettings {
  const get = (name: string) => env[name]?.trim() || undefined
  const problems: string[] = []
  const warnings: ConfigWarning[] = []
  const name = clusterNameOf(get, problems)
  const listen = get('KAS_CLUSTER_LISTEN')
  const discovery = discoveryFromEnvironment(env, problems)
  const opsSocket = get('KAS_OPS_SOCKET')
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
      texts: clusterTextsOf(get, problems),
    },
    ...(opsSocket ? { opsSocket } : {}),
    trustedProxies: trustedProxiesOf(get, problems),
    ownPrivateApi: ownPrivateApi(get, { problems, warnings }),
    problems,
    warnings,
  }
}

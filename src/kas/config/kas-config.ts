import { type ConfigWarning, type LoadedConfig, loadConfig, parseConfig, unknownKeyHints } from '../../lib/config.ts'
import { KasError } from '../../lib/errors.ts'
import { type EnvironmentSettings, environmentSettings } from './environment.ts'
import { gossipListen } from './gossip-listen.ts'
import { decisiveKeys, type KasConfig, type KasFile, kasConfigSchema } from './kas-schema.ts'
import type { OwnPrivateApi } from './own-private-api.ts'
import { withoutTrust } from './trusted-proxies.ts'
import { isDiscovering, unusedKeys, withoutEffect } from './unused-keys.ts'

export interface LoadedKasConfig {
  readonly config: KasConfig
  readonly ownPrivateApi: OwnPrivateApi
  readonly warnings: readonly ConfigWarning[]
}

const options = { unused: unusedKeys, decisive: decisiveKeys }

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Reads the file, and replaces its `cluster` settings by those of `env`.
 *
 * @throws KasError SETTINGS_INVALID with every problem of the file and of the environment
 */
export async function loadKasConfig(file: string, env: Environment): Promise<LoadedKasConfig> {
  return complete(file, await loadConfig(file, kasConfigSchema, options), env)
}

/** Does the same for a text that has been read already. */
export function parseKasConfig(file: string, content: string, env: Environment = {}): LoadedKasConfig {
  return complete(file, parseConfig(file, content, kasConfigSchema, options), env)
}

function complete(file: string, loaded: LoadedConfig<KasFile>, env: Environment): LoadedKasConfig {
  const settings = environmentSettings(env)
  if (settings.problems.length > 0) {
    throw new KasError({ code: 'SETTINGS_INVALID', file: 'environment', problems: settings.problems })
  }
  const cluster = clusterOf(loaded.value, settings.cluster)
  const socket = loaded.value.ops.socket ?? settings.opsSocket
  const agent = withTrusted(loaded.value.agent, settings.trustedProxies)
  const config = { ...loaded.value, agent, cluster, ops: { ...(socket === undefined ? {} : { socket }) } }
  const problems = [...missing(config), ...unreachable(config), ...withoutTrust(config.agent)]
  if (problems.length > 0) {
    throw new KasError({ code: 'SETTINGS_INVALID', file, problems, hints: unknownKeyHints(loaded.warnings) })
  }
  const warnings = [...loaded.warnings, ...withoutEffect(config), ...settings.warnings]
  return { config, ownPrivateApi: settings.ownPrivateApi, warnings }
}

/** Adds the environment's proxies to listeners for which the file names none. */
function withTrusted(agent: KasFile['agent'], trusted: readonly string[]): KasFile['agent'] {
  const { listen, kubernetes_api: api } = agent
  const named = <Listens extends { trusted_proxies: string[] }>(block: Listens): Listens =>
    block.trusted_proxies.length > 0 ? block : { ...block, trusted_proxies: [...trusted] }
  return {
    ...agent,
    listen: named(listen),
    ...(api ? { kubernetes_api: { ...api, listen: named(api.listen) } } : {}),
  }
}

/** Takes discovery as a whole from one place: sources of the file and of the environment do not mix. */
function clusterOf({ cluster: file, private_api }: KasFile, env: EnvironmentSettings['cluster']): KasConfig['cluster'] {
  return {
    ...file,
    ...(file.name === undefined && env.name !== undefined ? { name: env.name } : {}),
    ...(env.discovery ? { discovery: { static: [], ...env.discovery } as KasConfig['cluster']['discovery'] } : {}),
    ...env.texts,
    listen: gossipListen({ ...file.listen, ...env.listen }, private_api.listen),
  }
}

/** Finds missing keys that upstream requires, unless `directory.file` replaces GitLab. */
function missing(config: KasConfig): string[] {
  if (config.directory.file !== undefined) return []
  const required = {
    'gitlab.address': config.gitlab.address,
    'gitlab.authentication_secret_file': config.gitlab.authentication_secret_file,
    'api.listen.authentication_secret_file': config.api.listen.authentication_secret_file,
    'private_api.listen.authentication_secret_file': config.private_api.listen.authentication_secret_file,
  }
  return Object.entries(required).flatMap(([key, value]) =>
    value === undefined ? [`${key}: found nothing, allowed: a value, or directory.file for use without GitLab`] : [],
  )
}

/** Finds a private API on a Unix socket although discovery is set: such a replica is alone. */
function unreachable({ private_api, cluster: { discovery } }: KasConfig): string[] {
  if (private_api.listen.network !== 'unix' || !isDiscovering(discovery)) return []
  return ['private_api.listen.network: found "unix", allowed: one of tcp, tcp4, tcp6 where cluster.discovery is set']
}

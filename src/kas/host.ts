import type { Service } from '../lib/service.ts'
import { TemporaryFolder } from '../lib/temporary-folder.ts'
import { trustedContext } from '../lib/trusted-authorities.ts'
import type { Agent } from './agent.ts'
import { AgentConfigs, type AgentConfigsComponents } from './agent-config/agent-configs.ts'
import { createConfigurationMetrics } from './agent-config/configuration-metrics.ts'
import type { ModuleSchemas } from './agent-config/module-schema.ts'
import type { KasConfig } from './config/kas-schema.ts'
import { DirectoryFile } from './directory/file/directory-file.ts'
import { createDirectoryMetrics } from './directory/file/directory-metrics.ts'
import { FileDirectory } from './directory/file/file-directory.ts'
import { GitlabClient } from './directory/gitlab/gitlab-client.ts'
import { GitlabDirectory } from './directory/gitlab/gitlab-directory.ts'
import { createGitlabMetrics } from './directory/gitlab/gitlab-metrics.ts'
import { UsageCounters } from './directory/gitlab/usage-counters.ts'
import { UsageReport } from './directory/gitlab/usage-report.ts'
import { noUsage } from './directory/usage.ts'
import type { KasHost } from './module.ts'
import { createGitalyMetrics } from './repositories/gitaly/gitaly-metrics.ts'
import { gitalyFiles, gitalyRepositories } from './repositories/gitaly/gitaly-repositories.ts'
import { type GitalyRateLimit, GitalyServers } from './repositories/gitaly/gitaly-servers.ts'
import { LocalPushes } from './repositories/local-pushes.ts'
import type { Repositories } from './repositories/repositories.ts'
import { PolledElsewhere, type SharedPolls } from './repositories/shared-polls.ts'
import type { Trees } from './repositories/tree.ts'

/** The parts of a host that need neither directory nor repositories. */
export type HostParts = Pick<
  KasHost,
  'registrations' | 'peers' | 'leads' | 'forward' | 'serves' | 'away' | 'tracer' | 'clock' | 'register' | 'log'
>

export interface HostOptions {
  readonly schemas: ModuleSchemas
  readonly config: KasConfig
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/** The host, and the services that it needs, in the order of their start. */
export interface Hosted {
  readonly host: KasHost
  readonly services: readonly Service[]
}

/** Creates directory and repositories of a directory file if one is configured, else of GitLab (doc/reference/directory.md). */
export async function createHost(parts: HostParts, options: HostOptions): Promise<Hosted> {
  const { file } = options.config.directory
  return file === undefined ? ofGitlab(parts, options) : ofFile(parts, options, file)
}

async function ofFile(parts: HostParts, { schemas, config, env }: HostOptions, file: string): Promise<Hosted> {
  const { gitRepositories } = await import('./repositories/git-repositories.ts') // only without GitLab
  const { log, register, peers, clock } = parts
  const directoryFile = new DirectoryFile({ log, metrics: createDirectoryMetrics(register) }, { file })
  const folder = new TemporaryFolder({ log }, { program: 'kas' })
  const elsewhere = new PolledElsewhere({ peers, clock })
  const repositories = gitRepositories({ addresses: directoryFile, elsewhere, log }, { stateDir: folder.path, env })
  const { agentConfig, pushes } = aroundRepositories(parts, { schemas, config }, repositories)
  const directory = new FileDirectory({ directoryFile, configurations: agentConfig, log })
  const sharedPolls: SharedPolls = {
    followed: () => repositories.followed(),
    onFollowed: (listener) => repositories.onFollowed(listener),
    branch: (of) => repositories.branch(of),
    peerRead: (of, at) => repositories.peerRead(of, at),
    isFollowed: (projectId) => repositories.isFollowed(projectId),
    followForPeer: (of) => repositories.onMove(of, () => undefined, { isForPeer: true }),
    elsewhere,
  }
  const read = {
    pollAfterNotice: repositories.pollAfterNotice.bind(repositories),
    onFound: repositories.onFound.bind(repositories),
    trees: repositories,
    sharedPolls,
    hookSecretFile: (projectId: bigint) => directoryFile.repository(projectId)?.hookSecretFile,
    someHookSecretFile: () => directoryFile.someHookSecretFile(),
  }
  return {
    host: {
      ...parts,
      directory,
      localDirectory: directory,
      gitlab: undefined,
      agentConfig,
      pushes,
      repositories: read,
      usage: noUsage,
    },
    services: [folder, directoryFile, repositories, agentConfig],
  }
}

/**
 * Creates directory and repositories of GitLab. `gitlab.address` and its secret are set, since kas refuses a
 * configuration without them.
 */
function ofGitlab(parts: HostParts, { schemas, config, product, env }: HostOptions): Hosted {
  const { log, register, leads, tracer, clock } = parts
  const { gitlab, gitaly, agent, observability } = config
  const limit = rateOf(gitlab.api_rate_limit)
  const metrics = createGitlabMetrics(register, limit)
  const client = new GitlabClient(
    { log, metrics, tracer },
    {
      ...limit,
      address: gitlab.address ?? '',
      secretFile: gitlab.authentication_secret_file ?? '',
      caCertificateFile: gitlab.ca_certificate_file,
      userAgent: product,
      env,
    },
  )
  const directory = new GitlabDirectory(
    { client, log, onUnchecked: metrics.unchecked },
    {
      infoTtlMs: agent.info_cache_ttl,
      infoErrorTtlMs: agent.info_cache_error_ttl,
      projectTtlMs: agent.gitops.project_info_cache_ttl,
      projectErrorTtlMs: agent.gitops.project_info_cache_error_ttl,
      accessTtlMs: agent.kubernetes_api?.allowed_agent_cache_ttl ?? 0,
      accessErrorTtlMs: agent.kubernetes_api?.allowed_agent_cache_error_ttl ?? 0,
    },
  )
  const servers = new GitalyServers(
    {
      clock,
      metrics: createGitalyMetrics(register),
      secureContext: () => trustedContext(gitlab.ca_certificate_file, 'gitlab.ca_certificate_file'),
    },
    {
      globalLimit: rateOf(gitaly.global_api_rate_limit),
      serverLimit: rateOf(gitaly.per_server_api_rate_limit),
      userAgent: product,
    },
  )
  const repositories = gitalyRepositories(
    { addresses: directory.coordinates, servers, leads, log },
    { pollMs: agent.configuration.poll_period },
  )
  const onUnreadable = ({ id }: Agent) => leads.passOn(id)
  const { agentConfig, pushes } = aroundRepositories(parts, { schemas, config }, repositories, { onUnreadable })
  const periodMs = observability.usage_reporting_period
  const counters = new UsageCounters()
  const report = new UsageReport({ client, counters, log, clock }, { periodMs })
  const read = {
    pollAfterNotice: repositories.pollAfterNotice.bind(repositories),
    onFound: repositories.onFound.bind(repositories),
    trees: repositories,
    filesAt: gitalyFiles({ servers, clock }),
  }
  return {
    host: {
      ...parts,
      directory,
      localDirectory: undefined,
      gitlab: directory,
      agentConfig,
      pushes,
      repositories: read,
      usage: periodMs > 0 ? counters : noUsage,
    },
    services: [client, report, directory, servers, repositories, agentConfig], // usage counts until the end
  }
}

function rateOf(limit: KasConfig['gitaly']['global_api_rate_limit']): GitalyRateLimit {
  return { refillPerSecond: limit.refill_rate_per_second, bucketSize: limit.bucket_size }
}

function aroundRepositories(
  { log, register }: HostParts,
  { schemas, config }: Pick<HostOptions, 'schemas' | 'config'>,
  repositories: Repositories & Trees,
  handlers: Pick<AgentConfigsComponents, 'onUnreadable'> = {},
) {
  const maxFileBytes = config.agent.configuration.max_configuration_file_size
  const metrics = createConfigurationMetrics(register)
  return {
    agentConfig: new AgentConfigs({ schemas, repositories, log, metrics, ...handlers }, { maxFileBytes }),
    pushes: new LocalPushes({ repositories, log: log.child({ mod_name: 'api' }) }),
  }
}

import { systemClock } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import type { Registry } from '../lib/metrics.ts'
import type { Service } from '../lib/service.ts'
import type { Tracer } from '../lib/tracing/tracer.ts'
import { trustedContext } from '../lib/trusted-authorities.ts'
import type { Agent } from './agent.ts'
import { AgentConfigurations, type AgentConfigurationsComponents } from './agent-config/agent-configs.ts'
import { createConfigurationMetrics } from './agent-config/configuration-metrics.ts'
import type { KasConfig } from './config/kas-config.ts'
import type { Directory } from './directory/directory.ts'
import { DirectoryFile } from './directory/directory-file.ts'
import { createDirectoryMetrics } from './directory/directory-metrics.ts'
import { FileDirectory } from './directory/file-directory.ts'
import { GitlabClient } from './directory/gitlab/gitlab-client.ts'
import { GitlabDirectory } from './directory/gitlab/gitlab-directory.ts'
import { createGitlabMetrics } from './directory/gitlab/gitlab-metrics.ts'
import { moduleRequests, type PassToGitlab } from './directory/gitlab/gitlab-requests.ts'
import { UsageCounters } from './directory/gitlab/usage-counters.ts'
import { UsageReport } from './directory/gitlab/usage-report.ts'
import { noUsage, type Usage } from './directory/usage.ts'
import { ConnectedAgents } from './modules/agent-tracker/own-registrations.ts'
import { type AgentConfigFiles, agentConfigFiles } from './modules/configuration-project/agent-config-files.ts'
import { RecentPushes } from './modules/flux/recent-pushes.ts'
import type { Leads } from './replicas/leads.ts'
import { gitRepositories } from './repositories/git-repositories.ts'
import { createGitalyMetrics } from './repositories/gitaly/gitaly-metrics.ts'
import { gitalyRepositories } from './repositories/gitaly/gitaly-repositories.ts'
import { type GitalyRateLimit, GitalyServers } from './repositories/gitaly/gitaly-servers.ts'
import { LocalPushEvents } from './repositories/pushes.ts'
import type { Repositories } from './repositories/repositories.ts'
import { TemporaryFolder } from './repositories/temporary-folder.ts'
import type { WatchedRepositories } from './repositories/watched-repositories.ts'

/** Who is who, and the services that this needs. */
export interface Identity {
  readonly directory: Directory
  readonly configurations: AgentConfigurations
  readonly repositories: Pick<Repositories, 'poke'>
  readonly connectedAgents: ConnectedAgents
  readonly pushEvents: LocalPushEvents
  /** for agents that come back */
  readonly recentPushes: RecentPushes
  /** absent: projects lie nowhere that GitLab could name */
  readonly configFiles?: AgentConfigFiles
  /** absent: there is no GitLab that agents could call */
  readonly passToGitlab?: PassToGitlab
  /** repositories of which one replica polls each; absent: each polls its own */
  readonly polled?: Pick<WatchedRepositories<unknown>, 'onFound'>
  /** what GitLab wants counted */
  readonly usage: Usage
  /** in the order of their start; stopped after all servers, so that what happens to the last is counted */
  readonly services: readonly Service[]
}

export interface IdentityComponents {
  readonly leads: Pick<Leads, 'leads' | 'passOn'>
  readonly log: Logger
  readonly register: Registry
  /** absent: nothing is traced */
  readonly tracer: Tracer
}

export interface IdentityOptions {
  readonly config: KasConfig
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Directory and repositories of a file if one is named, else of GitLab (doc/directory.md). */
export function createIdentity(components: IdentityComponents, options: IdentityOptions): Identity {
  const { file } = options.config.directory
  return file === undefined ? ofGitlab(components, options) : ofFile(components, options, file)
}

function ofFile({ log, register }: IdentityComponents, { config, env }: IdentityOptions, file: string): Identity {
  const directoryFile = new DirectoryFile({ log, metrics: createDirectoryMetrics(register) }, { file })
  const folder = new TemporaryFolder({ log })
  const repositories = gitRepositories({ addresses: directoryFile, log }, { stateDir: folder.path, env })
  const shared = aroundRepositories({ log, register }, config, repositories)
  const directory = new FileDirectory({ directoryFile, configurations: shared.configurations, log })
  const services = [folder, directoryFile, repositories, shared.configurations]
  return { directory, ...shared, repositories, usage: noUsage, services }
}

/** The configuration has `gitlab.address` and its secret: it was refused without. */
function ofGitlab(
  { log, register, leads, tracer }: IdentityComponents,
  { config, product, env }: IdentityOptions,
): Identity {
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
      accessTtlMs: agent.kubernetes_api?.allowed_agent_cache_ttl ?? 0,
      accessErrorTtlMs: agent.kubernetes_api?.allowed_agent_cache_error_ttl ?? 0,
    },
  )
  const servers = new GitalyServers(
    {
      clock: systemClock,
      metrics: createGitalyMetrics(register),
      secureContext: () => trustedContext(gitlab.ca_certificate_file),
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
  const shared = aroundRepositories({ log, register }, config, repositories, { onUnreadable })
  const periodMs = observability.usage_reporting_period
  const counters = new UsageCounters()
  const report = new UsageReport({ client, counters, log, clock: systemClock }, { periodMs })
  const services = [client, report, directory, servers, repositories, shared.configurations]
  const configFiles = agentConfigFiles({ servers, clock: systemClock })
  const passToGitlab = moduleRequests({ client, agentHeaders: (token) => directory.agentHeaders(token) })
  const polled = repositories
  return {
    directory,
    ...shared,
    repositories,
    polled,
    configFiles,
    passToGitlab,
    usage: periodMs > 0 ? counters : noUsage,
    services,
  }
}

function rateOf(limit: KasConfig['gitaly']['global_api_rate_limit']): GitalyRateLimit {
  return { refillPerSecond: limit.refill_rate_per_second, bucketSize: limit.bucket_size }
}

function aroundRepositories(
  { log, register }: Pick<IdentityComponents, 'log' | 'register'>,
  config: KasConfig,
  repositories: Repositories,
  heard: Pick<AgentConfigurationsComponents, 'onUnreadable'> = {},
) {
  const maxFileBytes = config.agent.configuration.max_configuration_file_size
  const metrics = createConfigurationMetrics(register)
  const pushEvents = new LocalPushEvents({ repositories, log: log.child({ mod_name: 'api' }) })
  return {
    configurations: new AgentConfigurations({ repositories, log, metrics, ...heard }, { maxFileBytes }),
    connectedAgents: new ConnectedAgents({ clock: systemClock }),
    pushEvents,
    recentPushes: new RecentPushes({ pushEvents, clock: systemClock }),
  }
}

import { hostname } from 'node:os'
import { backgroundClock, monotonicClock, systemClock } from '../lib/clock.ts'
import type { LineSink } from '../lib/line-writer.ts'
import type { Logger } from '../lib/log.ts'
import { createBuildMetrics, createRegistry } from '../lib/metrics.ts'
import { type Service, Stages } from '../lib/service.ts'
import { noTracer } from '../lib/tracing/tracer.ts'
import { productName, type Version } from '../lib/version.ts'
import { AccessLog } from './access-log/access-log.ts'
import type { ModuleSchemas } from './agent-config/module-schema.ts'
import { defaultAdvertisedVersion, type KasConfig } from './config/kas-schema.ts'
import type { OwnPrivateApi } from './config/own-private-api.ts'
import { stopPatienceMs } from './config/stop-patience.ts'
import { createHost } from './host.ts'
import { LeftBehind } from './memory/left-behind.ts'
import { ReplicaMemory } from './memory/replica-memory.ts'
import { memoryLimit, replicaShares } from './memory/replica-shares.ts'
import type { KasHost, KasModule } from './module.ts'
import { moduleSchemas } from './module-schemas.ts'
import { createAgentTracker } from './modules/agent-tracker/module.ts'
import { type AgentsOfUserComponents, createAgentsOfUser } from './modules/agents-of-user/module.ts'
import { createConfiguration } from './modules/configuration/module.ts'
import { createConfigurationProject } from './modules/configuration-project/module.ts'
import { createFlux } from './modules/flux/module.ts'
import { createGitlabAccess } from './modules/gitlab-access/module.ts'
import { createGitops } from './modules/gitops/module.ts'
import { createKnownTokens } from './modules/known-tokens/module.ts'
import { createNotifications } from './modules/notifications/module.ts'
import { createRepositories } from './modules/repositories/module.ts'
import { createServerInfo } from './modules/server-info/module.ts'
import { createViews } from './modules/views/module.ts'
import { Readiness } from './observability/readiness.ts'
import { createTracing } from './observability/tracing.ts'
import { Peering, type PeeringComponents } from './peering.ts'
import { Leads } from './peers/leads.ts'
import { noPeers } from './peers/peers.ts'
import { ReplicaLinks } from './peers/replica-links.ts'
import { Ports } from './ports.ts'
import { deliver } from './router/delivery.ts'
import { Router } from './router/router.ts'
import { createRouterMetrics } from './router/router-metrics.ts'
import { TokenCallCounts } from './servers/agents/limits/token-call-counts.ts'
import { TokenCallReports } from './servers/agents/limits/token-call-reports.ts'
import { leaving, whenReady } from './servers/listening.ts'
import { ReplicaLog } from './sessions/replica-log.ts'
import { ReplicaSessions } from './sessions/replica-sessions.ts'
import { SessionTable } from './sessions/session-table.ts'
import { AwayAgents } from './tunnels/away-agents.ts'
import { connectedAgents } from './tunnels/connected-agents.ts'
import { RefusedCallers } from './tunnels/refused-callers.ts'
import { TunnelRegistry } from './tunnels/tunnel-registry.ts'

export interface AppComponents {
  readonly log: Logger
  /** target of the access log; absent: none, whatever the configuration says */
  readonly accessSink?: LineSink
  /** modules beside those of kas */
  readonly modules?: (host: KasHost) => readonly KasModule[]
  /** replaces the schemas of kas */
  readonly schemas?: ModuleSchemas
}

export interface AppOptions {
  readonly config: KasConfig
  /** address of this replica for peers, from the environment */
  readonly ownPrivateApi?: OwnPrivateApi
  /** file of `config`, for errors */
  readonly configurationFile: string
  readonly version: Version
  /** environment, from which git gets PATH, HOME, proxies and certificates */
  readonly env: Readonly<Record<string, string | undefined>>
}

/**
 * kas as a whole: builds its parts, starts them in order and stops them in reverse order (doc/operate/operations.md "How a
 * replica leaves").
 */
export class App implements Service {
  readonly #components: AppComponents
  readonly #options: AppOptions
  readonly #register = createRegistry()
  readonly #readiness = new Readiness()
  #stages: Stages | undefined
  #accessLog: AccessLog | undefined

  constructor(components: AppComponents, options: AppOptions) {
    this.#components = components
    this.#options = options
  }

  /** @throws KasError SETTINGS_INVALID, or the error of listening */
  async start(): Promise<void> {
    this.#stages = new Stages(await this.#build())
    await this.#stages.start()
  }

  /** Stops kas; without `patience`, within the graces of the configuration. */
  async stop(patience?: AbortSignal): Promise<void> {
    await this.#stages?.stop(patience ?? AbortSignal.timeout(stopPatienceMs(this.#options.config)))
  }

  /** The process ends: writes the remaining lines of the access log as far as they are accepted at once. */
  flushNow(): void {
    this.#accessLog?.flushNow()
  }

  /** Builds the services, in the order of their start. Later parts get earlier ones, never the other way. */
  async #build(): Promise<Service[]> {
    createBuildMetrics(this.#register, this.#options.version)
    const { config, configurationFile, env, version } = this.#options
    const { log } = this.#components
    const product = productName('gitlab-kas', version)
    const clock = systemClock
    const tracing = await createTracing(log, { config, version, product })
    const memory = new ReplicaMemory(replicaShares(memoryLimit()), this.#register)
    const shared = { log, register: this.#register, clock, memory, tracer: tracing ?? noTracer }
    const tunnels = new TunnelRegistry({ clock: monotonicClock })
    const peering = await this.#peering(shared)
    const { membership, peers = noPeers, links } = peering ?? {}
    const name = membership?.name ?? config.cluster.name ?? hostname()
    const accessLog = this.#createAccessLog(name)
    this.#accessLog = accessLog
    const leads = new Leads({ clock, membership, peers })
    const away = new AwayAgents({ tunnels, membership, clock: monotonicClock, wallClock: systemClock })
    const router = new Router({ tunnels, observer: createRouterMetrics(this.#register), links, away })
    const refusedCallers = new RefusedCallers({ clock, log })
    const forward = refusedCallers.watch(deliver(router.forward))
    const findAway: KasHost['away'] = (agentId) => away.find(agentId)
    const serves: KasHost['serves'] = (agentId, method) => router.serves(agentId, method)
    const { host, services } = await createHost(
      { ...shared, registrations: membership?.registrations, peers, leads, forward, serves, away: findAway },
      { schemas: this.#components.schemas ?? moduleSchemas, config, product, env },
    )
    const connectedTo: AgentsOfUserComponents['connectedTo'] = (ids) =>
      connectedAgents({ tunnels, membership, name }, ids)
    const modules = this.#modules(host, connectedTo)
    const counts = new TokenCallCounts(clock)
    const { connections_per_token_per_minute: callsPerTokenPerMinute } = config.agent.listen
    const reports = membership && new TokenCallReports({ counts, peers, name, clock }, { callsPerTokenPerMinute })
    const table = new SessionTable()
    const sessions = new ReplicaSessions({ table, peers, name, clock, log: log.child({ mod_name: 'kubernetes_api' }) })
    const replicaLog = new ReplicaLog({ recent: accessLog?.recent, peers, clock })
    const replicaLinks = peering && new ReplicaLinks({ ...peering, clock })
    const methods = new Map(
      [leads, reports, sessions, replicaLog, replicaLinks, ...modules].flatMap((part) => [
        ...(part?.replicaMethods ?? []),
      ]),
    )
    const readiness = this.#readiness
    const ports = new Ports(
      {
        host,
        tunnels,
        memory,
        peering,
        refusedCallers,
        counts,
        modules,
        readiness,
        accessLog,
        table,
        sessions,
        replicaLog,
        replicaLinks,
      },
      { config, configurationFile, version, product },
    )
    return [
      ...(accessLog ? [accessLog] : []),
      ...(tracing ? [tracing] : []), // stops last, after it has sent the last spans of the others
      ...ports.ops(),
      ...ports.opsSocket(),
      ...services,
      ...(peering ? [whenReady(this.#readiness, 'cluster', peering.service({ tunnels, methods }))] : []),
      leads,
      ...(reports ? [reports] : []),
      ...modules.flatMap((module) => module.services ?? []),
      ...ports.agents(),
      ...(await ports.kubernetes()),
      ...ports.rails(),
      ...(peering ? [peering.serving] : []),
      away,
      new LeftBehind({ clock: monotonicClock, memory }),
      leaving(this.#readiness),
    ]
  }

  #createAccessLog(entry: string): AccessLog | undefined {
    const { log, accessSink: sink } = this.#components
    if (!sink) return undefined
    const { observability, ops, agent } = this.#options.config
    const { rules, exec_command: execCommand } = observability.access_log
    const components = {
      sink,
      clock: backgroundClock,
      register: this.#register,
      log: log.child({ mod_name: 'access_log' }),
    }
    const keepsRecent = ops.socket !== undefined || agent.kubernetes_api !== undefined
    return new AccessLog(components, { entry, rules, execCommand, keepsRecent })
  }

  /** Creates the modules: each feature is a line here. */
  #modules(host: KasHost, connectedTo: AgentsOfUserComponents['connectedTo']): readonly KasModule[] {
    const { gitlab, agent, cluster } = this.#options.config
    const tracker = createAgentTracker(host)
    const configuration = { gitlabExternalUrl: gitlab.external_url ?? '', pollMs: agent.configuration.poll_period }
    const { gitopsRoundsBytes: roundsBytes, gitopsFilesBytes: keptBytes } = replicaShares(memoryLimit())
    const gitops = {
      roundsBytes,
      keptBytes,
      pollMs: agent.gitops.poll_period,
      maxPaths: agent.gitops.max_number_of_paths,
      maxFiles: agent.gitops.max_number_of_files,
      maxFileBytes: agent.gitops.max_manifest_file_size,
      maxTotalBytes: agent.gitops.max_total_manifest_file_size,
    }
    const modules = [
      tracker,
      createConfiguration(host, tracker, configuration),
      createNotifications(host),
      createRepositories(host),
      createFlux(host),
      createGitops(host, gitops),
      createGitlabAccess(host),
      createKnownTokens(host),
      createConfigurationProject(host),
      createAgentsOfUser(host, { connectedTo, registered: (ids) => tracker.registered(ids) }),
      createViews(host, { pollMs: agent.configuration.poll_period }),
      createServerInfo({ advertisedVersion: cluster.advertised_version ?? defaultAdvertisedVersion }),
      ...(this.#components.modules?.(host) ?? []),
    ]
    return modules.filter((module) => module !== undefined)
  }

  /**
   * Creates the peering. Without a secret that replicas share, or an address that peers can call, this replica is
   * alone.
   */
  async #peering(components: PeeringComponents): Promise<Peering | undefined> {
    const { config, configurationFile, version, env, ownPrivateApi = {} } = this.#options
    const { authentication_secret_file: secretFile, network } = config.private_api.listen
    if (secretFile === undefined || network === 'unix') return undefined
    const options = { config, configurationFile, ownPrivateApi, secretFile, kasVersion: version.version, env }
    return await Peering.create(components, options)
  }
}

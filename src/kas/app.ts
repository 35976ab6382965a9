import { CertificateFiles } from '../lib/certificate-files.ts'
import { systemClock } from '../lib/clock.ts'
import { KasError } from '../lib/errors.ts'
import type { Logger } from '../lib/log.ts'
import {
  createAgentMetrics,
  createBuildMetrics,
  createGrpcServerMetrics,
  createRegistry,
  createRouterMetrics,
  type GrpcServerMetrics,
} from '../lib/metrics.ts'
import { OpsServer } from '../lib/ops-server.ts'
import { type Service, Stages } from '../lib/service.ts'
import { productName, type Version } from '../lib/version.ts'
import { agentMethods, methodTypes } from './agent-methods.ts'
import { type ListenOptions, type Network, parseListenAddress } from './config/listen-address.ts'
import type { KasConfig } from './config.ts'
import { DirectoryFile } from './directory/directory-file.ts'
import { createDirectoryMetrics } from './directory/directory-metrics.ts'
import { FileDirectory } from './directory/file.ts'
import { ConnectedAgents } from './modules/agent-tracker/connected-agents.ts'
import { LocalPushEvents } from './modules/notifications/local-push-events.ts'
import { railsMethods, railsMethodTypes } from './rails-methods.ts'
import { AgentConfigurations } from './repositories/agent-configurations.ts'
import { GitRepositories } from './repositories/git.ts'
import { TemporaryFolder } from './repositories/temporary-folder.ts'
import { deliver } from './router/delivery.ts'
import { Router } from './router/router.ts'
import { createRefusalMetrics } from './servers/agents/refusals.ts'
import { AgentsServer } from './servers/agents.ts'
import { grpcObserver } from './servers/grpc-observer.ts'
import { KubernetesServer } from './servers/kubernetes.ts'
import { RailsServer } from './servers/rails.ts'
import { Readiness } from './servers/readiness.ts'
import { Tunnels } from './tunnels/tunnels.ts'

export interface AppOptions {
  readonly config: KasConfig
  /** where `config` was read, for errors */
  readonly configurationFile: string
  readonly version: Version
  /** of which git gets PATH, HOME, proxies and certificates */
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Who is who, and the services that this needs. */
interface Identity {
  readonly directory: FileDirectory
  readonly configurations: AgentConfigurations
  readonly repositories: GitRepositories
  readonly connectedAgents: ConnectedAgents
  readonly services: readonly Service[]
}

interface Listen {
  readonly network: Network
  readonly address: string
  readonly certificate_file?: string | undefined
  readonly key_file?: string | undefined
}

/** Room beyond the graces of the configuration for what runs to end in order. ms */
const stopMarginMs = 10_000

/** kas as a whole: builds its parts, starts them in order and stops them in reverse (design 8). */
export class App implements Service {
  readonly #log: Logger
  readonly #options: AppOptions
  readonly #register = createRegistry()
  readonly #readiness = new Readiness()
  #stages: Stages | undefined

  constructor(components: { log: Logger }, options: AppOptions) {
    this.#log = components.log
    this.#options = options
  }

  /** @throws KasError SETTINGS_INVALID, or what listening threw */
  async start(): Promise<void> {
    this.#stages = new Stages(this.#build())
    await this.#stages.start()
  }

  /** Without `patience`: the graces of the configuration. */
  async stop(patience?: AbortSignal): Promise<void> {
    const { agent, api } = this.#options.config
    const kubernetes = agent.kubernetes_api?.listen
    const listens = [agent.listen, api.listen, kubernetes]
    const listenMs = Math.max(...listens.map((listen) => listen?.listen_grace_period ?? 0))
    const graceMs = listenMs + (kubernetes?.shutdown_grace_period ?? 0) + stopMarginMs
    await this.#stages?.stop(patience ?? AbortSignal.timeout(graceMs))
  }

  #build(): Service[] {
    createBuildMetrics(this.#register, this.#options.version)
    const identity = this.#identity()
    const tunnels = new Tunnels({ now: () => performance.now() })
    const grpcMetrics = createGrpcServerMetrics(this.#register)
    const router = new Router({ tunnels, observer: createRouterMetrics(this.#register) })
    return [
      ...this.#ops(),
      ...identity.services,
      ...this.#agents(identity, tunnels, grpcMetrics),
      ...this.#kubernetes(identity, router),
      ...this.#rails(identity, router, grpcMetrics),
      leaving(this.#readiness),
    ]
  }

  #ops(): Service[] {
    const { listen, prometheus, liveness_probe, readiness_probe } = this.#options.config.observability
    const certificate = this.#certificate(listen)
    const server = new OpsServer(
      {
        register: this.#register,
        readiness: this.#readiness,
        log: this.#log.child({ mod_name: 'observability' }),
        ...certificate,
      },
      {
        listen: listenOptions(listen),
        metricsPath: prometheus.url_path,
        livenessPath: liveness_probe.url_path,
        readinessPath: readiness_probe.url_path,
        product: this.#product,
      },
    )
    return [...Object.values(certificate), this.#announced('Observability', listen, server)]
  }

  #identity(): Identity {
    const { config, configurationFile, env } = this.#options
    const { file } = config.directory
    if (file === undefined) {
      const problem = 'directory.file: found nothing, allowed: a file, because GitLab itself cannot be asked yet'
      throw new KasError({ code: 'SETTINGS_INVALID', file: configurationFile, problems: [problem] })
    }
    const log = this.#log
    const directoryFile = new DirectoryFile({ log, metrics: createDirectoryMetrics(this.#register) }, { file })
    const folder = new TemporaryFolder({ log })
    const repositories = new GitRepositories({ addresses: directoryFile, log }, { stateDir: folder.path, env })
    const maxFileBytes = config.agent.configuration.max_configuration_file_size
    const configurations = new AgentConfigurations({ repositories, log }, { maxFileBytes })
    const directory = new FileDirectory({ directoryFile, configurations, log })
    const connectedAgents = new ConnectedAgents({ clock: systemClock })
    const services = [folder, directoryFile, repositories, configurations]
    return { directory, configurations, repositories, connectedAgents, services }
  }

  #agents(identity: Identity, tunnels: Tunnels, metrics: GrpcServerMetrics): Service[] {
    const { listen } = this.#options.config.agent
    const { rateExceeded } = createAgentMetrics(this.#register, () => tunnels.agentCount)
    const { gitlab, agent } = this.#options.config
    const methods = agentMethods(
      { ...identity, log: this.#log },
      { gitlabExternalUrl: gitlab.external_url ?? '', pollMs: agent.configuration.poll_period },
    )
    const certificate = this.#certificate(listen)
    const server = new AgentsServer(
      {
        directory: identity.directory,
        tunnels,
        methods,
        log: this.#log.child({ mod_name: 'agent_server' }),
        onRateExceeded: rateExceeded,
        onRefused: createRefusalMetrics(this.#register),
        events: grpcObserver(metrics, methodTypes(methods)),
        ...certificate,
      },
      {
        listen: listenOptions(listen),
        websocket: listen.websocket,
        product: this.#product,
        listenGraceMs: listen.listen_grace_period,
        age: { maxAgeMs: listen.max_connection_age },
        authenticator: { callsPerTokenPerMinute: listen.connections_per_token_per_minute },
      },
    )
    const announced = this.#announced('Agentk API', listen, server, { is_websocket: listen.websocket })
    return [...Object.values(certificate), this.#whenReady('agentServer', announced)]
  }

  #kubernetes({ directory }: Identity, router: Router): Service[] {
    const { config } = this.#options
    const block = config.agent.kubernetes_api
    if (!block) return []
    const { listen } = block
    const certificate = this.#certificate(listen)
    const log = this.#log.child({ mod_name: 'kubernetes_api' })
    const server = new KubernetesServer(
      { forward: deliver(router.forward), directory, register: this.#register, log, ...certificate },
      {
        listen: listenOptions(listen),
        urlPathPrefix: block.url_path_prefix,
        ...(config.gitlab.external_url ? { externalUrl: config.gitlab.external_url } : {}),
        listenGraceMs: listen.listen_grace_period,
        shutdownGraceMs: listen.shutdown_grace_period,
        product: this.#product,
      },
    )
    const announced = this.#announced('Kubernetes API', listen, server, { url_path_prefix: block.url_path_prefix })
    return [...Object.values(certificate), announced]
  }

  /** Without its secret nobody could be let in: then there is no such server. */
  #rails({ connectedAgents, repositories }: Identity, router: Router, metrics: GrpcServerMetrics): Service[] {
    const { api, cluster } = this.#options.config
    const { listen } = api
    const secretFile = listen.authentication_secret_file
    if (secretFile === undefined) return []
    const log = this.#log.child({ mod_name: 'api' })
    const pushEvents = new LocalPushEvents({ repositories, log })
    const methods = railsMethods(
      { connectedAgents, pushEvents, clock: systemClock },
      { advertisedVersion: cluster.advertised_version },
    )
    const events = grpcObserver(metrics, railsMethodTypes(methods))
    const certificate = this.#certificate(listen)
    const server = new RailsServer(
      { methods, forward: deliver(router.forward), clock: systemClock, log, events, ...certificate },
      {
        listen: listenOptions(listen),
        secretFile,
        listenGraceMs: listen.listen_grace_period,
        maxAgeMs: listen.max_connection_age,
      },
    )
    return [...Object.values(certificate), this.#whenReady('apiServer', this.#announced('API', listen, server))]
  }

  get #product(): string {
    return productName('gitlab-kas', this.#options.version)
  }

  #certificate({ certificate_file, key_file }: Listen): { certificate?: CertificateFiles } {
    if (certificate_file === undefined || key_file === undefined) return {}
    return {
      certificate: new CertificateFiles({ log: this.#log }, { certificateFile: certificate_file, keyFile: key_file }),
    }
  }

  /** Says where a server listens, in the words that operators look for (wire-protocol 8.4). */
  #announced(name: string, { network }: Listen, server: Service & { address: unknown }, fields = {}): Service {
    return {
      start: async () => {
        await server.start()
        this.#log.info(
          { net_network: network, net_address: addressText(server.address), ...fields },
          `${name} endpoint is up`,
        )
      },
      leave: async (patience) => server.leave?.(patience),
      stop: (patience) => server.stop(patience),
    }
  }

  #whenReady(name: string, service: Service): Service {
    const set = this.#readiness.toggle(name)
    return {
      start: async () => {
        await service.start()
        set(undefined)
      },
      leave: async (patience) => service.leave?.(patience),
      stop: (patience) => service.stop(patience),
    }
  }
}

/** Last to start, first to leave: balancers hear that this replica leaves before anything of it does. */
function leaving(readiness: Readiness): Service {
  const set = readiness.toggle('shutdown')
  return {
    start: async () => set(undefined),
    leave: async () => set('shutting down'),
    stop: async () => undefined,
  }
}

function listenOptions({ network, address }: Listen): ListenOptions {
  const options = parseListenAddress(network, address)
  if (!options) throw new Error(`${address} was checked when the configuration was read`)
  return options
}

function addressText(address: unknown): string {
  if (typeof address !== 'object' || address === null) return String(address)
  const { family, address: host, port } = address as { family: string; address: string; port: number }
  return family === 'IPv6' ? `[${host}]:${port}` : `${host}:${port}`
}

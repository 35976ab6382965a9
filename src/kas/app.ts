import { hostname } from 'node:os'
import { systemClock } from '../lib/clock.ts'
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
import { noTracer } from '../lib/tracing/tracer.ts'
import { productName, type Version } from '../lib/version.ts'
import { defaultAdvertisedVersion, type KasConfig } from './config/kas-config.ts'
import type { Listen } from './config/listen-address.ts'
import type { OwnPrivateApi } from './config/own-private-api.ts'
import { stopPatienceMs } from './config/stop-patience.ts'
import { createHost } from './host.ts'
import type { AgentMethod, KasHost, KasModule } from './module.ts'
import { createAgentTracker } from './modules/agent-tracker/module.ts'
import { createConfiguration } from './modules/configuration/module.ts'
import { createConfigurationProject } from './modules/configuration-project/module.ts'
import { createFlux } from './modules/flux/module.ts'
import { createGitlabAccess } from './modules/gitlab-access/module.ts'
import { createNotifications } from './modules/notifications/module.ts'
import { createServerInfo } from './modules/server-info/module.ts'
import { grpcObserver } from './observability/grpc-observer.ts'
import { Readiness } from './observability/readiness.ts'
import { createTracing } from './observability/tracing.ts'
import { Peering, type PeeringComponents } from './peering.ts'
import { Leads } from './replicas/leads.ts'
import { noPeers } from './replicas/peers.ts'
import { deliver } from './router/delivery.ts'
import { Router } from './router/router.ts'
import { AgentsServer, agentMethodTypes } from './servers/agents/agents-server.ts'
import { CallCountReports, type CallCountReportsComponents } from './servers/agents/call-count-reports.ts'
import { CallCounts } from './servers/agents/call-counts.ts'
import { createRefusalMetrics } from './servers/agents/refusals.ts'
import { frontRedirect } from './servers/kubernetes/front-redirect.ts'
import { KubernetesServer } from './servers/kubernetes/kubernetes-server.ts'
import { webSocketTokens } from './servers/kubernetes/watch/websocket-tokens-file.ts'
import type { ListenPlace } from './servers/listen-failure.ts'
import { announced, certificateOf, explained, leaving, listenOptions, whenReady } from './servers/listening.ts'
import { opsAnswers } from './servers/ops-socket/ops-answers.ts'
import { OpsSocket } from './servers/ops-socket/ops-socket.ts'
import { RailsServer, railsMethodTypes } from './servers/rails/rails-server.ts'
import { createRailsRefusalMetrics } from './servers/rails/refusals.ts'
import { HeldConnections } from './tunnels/held-connections.ts'
import { MemberPlacement } from './tunnels/placement.ts'
import { Tunnels } from './tunnels/tunnels.ts'

export interface AppComponents {
  readonly log: Logger
  /** beside those that kas has */
  readonly modules?: (host: KasHost) => readonly KasModule[]
}

export interface AppOptions {
  readonly config: KasConfig
  /** where other replicas are told to call this one, if the environment says */
  readonly ownPrivateApi?: OwnPrivateApi
  /** where `config` was read, for errors */
  readonly configurationFile: string
  readonly version: Version
  /** of which git gets PATH, HOME, proxies and certificates */
  readonly env: Readonly<Record<string, string | undefined>>
}

/** What servers are built of. */
interface Parts extends KasHost {
  readonly tunnels: Tunnels
  /** undefined: this replica is alone */
  readonly peering: Peering | undefined
  readonly counts: CallCounts
  readonly modules: readonly KasModule[]
  readonly metrics: GrpcServerMetrics
}

/**
 * kas as a whole: builds its parts, starts them in order and stops them in reverse
 * (doc/operations.md "How a replica leaves").
 */
export class App implements Service {
  readonly #components: AppComponents
  readonly #options: AppOptions
  readonly #register = createRegistry()
  readonly #readiness = new Readiness()
  #stages: Stages | undefined

  constructor(components: AppComponents, options: AppOptions) {
    this.#components = components
    this.#options = options
  }

  /** @throws KasError SETTINGS_INVALID, or what listening threw */
  async start(): Promise<void> {
    this.#stages = new Stages(await this.#build())
    await this.#stages.start()
  }

  /** Without `patience`: the graces of the configuration. */
  async stop(patience?: AbortSignal): Promise<void> {
    await this.#stages?.stop(patience ?? AbortSignal.timeout(stopPatienceMs(this.#options.config)))
  }

  /** In the order of their start; what is built sooner is given to what is built later, and nothing the other way. */
  async #build(): Promise<Service[]> {
    createBuildMetrics(this.#register, this.#options.version)
    const { config, env, version } = this.#options
    const { log } = this.#components
    const product = this.#product
    const clock = systemClock
    const tracing = await createTracing(log, { config, version, product })
    const shared = { log, register: this.#register, clock, tracer: tracing ?? noTracer }
    const tunnels = new Tunnels({ now: () => performance.now() })
    const peering = await this.#peering(shared)
    const { membership, peers = noPeers, replicas } = peering ?? {}
    const leads = new Leads({ clock, membership, peers })
    const router = new Router({
      tunnels,
      observer: createRouterMetrics(this.#register),
      ...(replicas ? { replicas } : {}),
    })
    const forward = deliver(router.forward)
    const { host, services } = createHost({ ...shared, membership, peers, leads, forward }, { config, product, env })
    const modules = this.#modules(host)
    const counts = new CallCounts(clock)
    const reports = membership && this.#callCountReports({ counts, peers, name: membership.name, clock })
    const methods = new Map([leads, reports, ...modules].flatMap((answering) => [...(answering?.replicaMethods ?? [])]))
    const parts = { ...host, tunnels, peering, counts, modules, metrics: createGrpcServerMetrics(this.#register) }
    return [
      ...(tracing ? [tracing] : []), // last to stop: it sends the others' last spans
      ...this.#ops(),
      ...this.#opsSocket(parts),
      ...services,
      ...(peering ? [whenReady(this.#readiness, 'cluster', peering.service({ tunnels, methods }))] : []),
      leads,
      ...(reports ? [reports] : []),
      ...modules.flatMap((module) => module.services ?? []),
      ...this.#agents(parts),
      ...(await this.#kubernetes(parts)),
      ...this.#rails(parts),
      ...(peering ? [peering.serving] : []),
      leaving(this.#readiness),
    ]
  }

  /** A feature is a line here. */
  #modules(host: KasHost): readonly KasModule[] {
    const { gitlab, agent, cluster } = this.#options.config
    const tracker = createAgentTracker(host)
    const configuration = { gitlabExternalUrl: gitlab.external_url ?? '', pollMs: agent.configuration.poll_period }
    const modules = [
      tracker,
      createConfiguration(host, tracker, configuration),
      createNotifications(host),
      createFlux(host),
      createGitlabAccess(host),
      createConfigurationProject(host),
      createServerInfo({ advertisedVersion: cluster.advertised_version ?? defaultAdvertisedVersion }),
      ...(this.#components.modules?.(host) ?? []),
    ]
    return modules.filter((module) => module !== undefined)
  }

  /** Without a secret that replicas share, or an address that they can call, this one is alone. */
  async #peering(components: PeeringComponents): Promise<Peering | undefined> {
    const { config, configurationFile, version, env, ownPrivateApi = {} } = this.#options
    const { authentication_secret_file: secretFile, network } = config.private_api.listen
    if (secretFile === undefined || network === 'unix') return undefined
    const options = { config, configurationFile, ownPrivateApi, secretFile, kasVersion: version.version, env }
    return await Peering.create(components, options)
  }

  #callCountReports(components: CallCountReportsComponents): CallCountReports {
    const { connections_per_token_per_minute: callsPerTokenPerMinute } = this.#options.config.agent.listen
    return new CallCountReports(components, { callsPerTokenPerMinute })
  }

  #ops(): Service[] {
    const { listen, prometheus, liveness_probe, readiness_probe } = this.#options.config.observability
    const certificate = certificateOf(this.#log, listen)
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
    return [
      ...Object.values(certificate),
      announced(this.#log, server, { name: 'Observability', ...this.#place('observability.listen.address', listen) }),
    ]
  }

  #opsSocket({ tunnels, peering }: Parts): Service[] {
    const { config, version } = this.#options
    const { socket } = config.ops
    if (socket === undefined) return []
    const known = {
      name: peering?.membership.name ?? config.cluster.name ?? hostname(),
      version: version.version,
      readiness: this.#readiness,
      tunnels,
      ...(peering ? { cluster: peering } : {}),
    }
    const log = this.#log.child({ mod_name: 'observability' })
    const server = new OpsSocket({ answers: opsAnswers(known), log }, { path: socket })
    return [explained(server, this.#place('ops.socket', { network: 'unix', address: socket }))]
  }

  #agents({ directory, tunnels, peering, counts, modules, metrics, tracer }: Parts): Service[] {
    const { listen, kubernetes_api: kubernetes } = this.#options.config.agent
    const { rateExceeded } = createAgentMetrics(this.#register, () => tunnels.agentCount)
    const methods = Object.assign({}, ...modules.map(({ agentMethods }) => agentMethods)) as Record<string, AgentMethod>
    const certificate = certificateOf(this.#log, listen)
    const held = peering && new HeldConnections({ row: peering.membership, log: this.#log })
    const server = new AgentsServer(
      {
        directory,
        tunnels,
        methods,
        counts,
        log: this.#log.child({ mod_name: 'agent_server' }),
        onRateExceeded: rateExceeded,
        onRefused: createRefusalMetrics(this.#register),
        ...(held ? { held, placement: new MemberPlacement({ membership: peering.membership }) } : {}),
        events: grpcObserver(metrics, agentMethodTypes(methods)),
        ...certificate,
        tracer,
      },
      {
        listen: listenOptions(listen),
        websocket: listen.websocket,
        product: this.#product,
        listenGraceMs: listen.listen_grace_period,
        ...(kubernetes ? { shutdownGraceMs: kubernetes.listen.shutdown_grace_period } : {}),
        age: { maxAgeMs: listen.max_connection_age },
        authenticator: { callsPerTokenPerMinute: listen.connections_per_token_per_minute },
      },
    )
    const told = announced(this.#log, server, {
      name: 'Agentk API',
      ...this.#place('agent.listen.address', listen),
      is_websocket: listen.websocket,
    })
    return [...Object.values(certificate), whenReady(this.#readiness, 'agentServer', told)]
  }

  async #kubernetes({ directory, usage, forward, tunnels, peering, tracer }: Parts): Promise<Service[]> {
    const { config, version } = this.#options
    const block = config.agent.kubernetes_api
    if (!block) return []
    const { listen } = block
    const { advertised_version: gitlabVersion } = config.cluster
    const certificate = certificateOf(this.#log, listen)
    const log = this.#log.child({ mod_name: 'kubernetes_api' })
    const tokens = await webSocketTokens({ log, clock: systemClock }, block.websocket_token_secret_file)
    const redirect = await frontRedirect(peering, { tunnels, file: block.accel_redirect_secret_file })
    const told = { ...tokens, ...redirect, ...certificate, tracer }
    const server = new KubernetesServer(
      { forward, directory, usage, register: this.#register, log, ...told },
      {
        listen: listenOptions(listen),
        urlPathPrefix: block.url_path_prefix,
        ...(config.gitlab.external_url ? { externalUrl: config.gitlab.external_url } : {}),
        listenGraceMs: listen.listen_grace_period,
        shutdownGraceMs: listen.shutdown_grace_period,
        product: this.#product,
        ...(gitlabVersion ? { versions: { kas: version.version, gitlab: gitlabVersion } } : {}),
        ...(block.response_header_allowlist ? { allowedResponseHeaders: block.extra_allowed_response_headers } : {}),
      },
    )
    const { url_path_prefix } = block
    const service = announced(this.#log, server, {
      name: 'Kubernetes API',
      ...this.#place('agent.kubernetes_api.listen.address', listen),
      url_path_prefix,
    })
    return [...Object.values(certificate), service]
  }

  /** Without its secret nobody could be let in: then there is no such server. */
  #rails({ forward, modules, metrics, tracer }: Parts): Service[] {
    const { api } = this.#options.config
    const { listen } = api
    const secretFile = listen.authentication_secret_file
    if (secretFile === undefined) return []
    const log = this.#log.child({ mod_name: 'api' })
    const methods = new Map(modules.flatMap(({ railsMethods }) => [...(railsMethods ?? [])]))
    const events = grpcObserver(metrics, railsMethodTypes(methods))
    const certificate = certificateOf(this.#log, listen)
    const server = new RailsServer(
      {
        methods,
        forward,
        clock: systemClock,
        log,
        onRefused: createRailsRefusalMetrics(this.#register),
        events,
        ...certificate,
        tracer,
      },
      {
        listen: listenOptions(listen),
        secretFile,
        listenGraceMs: listen.listen_grace_period,
        maxAgeMs: listen.max_connection_age,
      },
    )
    const told = announced(this.#log, server, { name: 'API', ...this.#place('api.listen.address', listen) })
    return [...Object.values(certificate), whenReady(this.#readiness, 'apiServer', told)]
  }

  #place(key: string, listen: Listen): ListenPlace {
    return { file: this.#options.configurationFile, key, listen }
  }

  get #log(): Logger {
    return this.#components.log
  }

  get #product(): string {
    return productName('gitlab-kas', this.#options.version)
  }
}

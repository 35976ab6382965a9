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
import { noTracer, type Tracer } from '../lib/tracing/tracer.ts'
import { productName, type Version } from '../lib/version.ts'
import { agentMethods, methodTypes } from './agent-methods.ts'
import { Cluster } from './cluster.ts'
import { defaultAdvertisedVersion, type KasConfig } from './config/kas-config.ts'
import type { Listen } from './config/listen-address.ts'
import type { OwnPrivateApi } from './config/own-private-api.ts'
import { stopPatienceMs } from './config/stop-patience.ts'
import { createIdentity, type Identity } from './identity.ts'
import { ConfigurationPosts } from './modules/configuration/configuration-posts.ts'
import { grpcObserver } from './observability/grpc-observer.ts'
import { Readiness } from './observability/readiness.ts'
import { createTracing } from './observability/tracing.ts'
import { type OverAllReplicasComponents, overAllReplicas, type Told } from './over-all-replicas.ts'
import { railsMethods, railsMethodTypes } from './rails-methods.ts'
import { replicaMethods } from './replica-methods.ts'
import { Leads } from './replicas/leads.ts'
import { deliver } from './router/delivery.ts'
import { Router } from './router/router.ts'
import { AgentsServer } from './servers/agents/agents-server.ts'
import { CallCounts } from './servers/agents/call-counts.ts'
import { createRefusalMetrics } from './servers/agents/refusals.ts'
import { frontRedirect } from './servers/kubernetes/front-redirect.ts'
import { KubernetesServer } from './servers/kubernetes/kubernetes-server.ts'
import { webSocketTokens } from './servers/kubernetes/watch/websocket-tokens-file.ts'
import type { ListenPlace } from './servers/listen-failure.ts'
import { announced, certificateOf, explained, leaving, listenOptions, whenReady } from './servers/listening.ts'
import { opsAnswers } from './servers/ops-socket/ops-answers.ts'
import { OpsSocket } from './servers/ops-socket/ops-socket.ts'
import { RailsServer } from './servers/rails/rails-server.ts'
import { createRailsRefusalMetrics } from './servers/rails/refusals.ts'
import { HeldConnections } from './tunnels/held-connections.ts'
import { MemberPlacement } from './tunnels/placement.ts'
import { Tunnels } from './tunnels/tunnels.ts'

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

/**
 * kas as a whole: builds its parts, starts them in order and stops them in reverse
 * (doc/operations.md "How a replica leaves").
 */
export class App implements Service {
  readonly #log: Logger
  readonly #options: AppOptions
  readonly #register = createRegistry()
  readonly #readiness = new Readiness()
  #tracer: Tracer = noTracer
  #stages: Stages | undefined

  constructor(components: { log: Logger }, options: AppOptions) {
    this.#log = components.log
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

  async #build(): Promise<Service[]> {
    createBuildMetrics(this.#register, this.#options.version)
    const { config, env, version } = this.#options
    const tracing = await createTracing(this.#log, { config, version, product: this.#product })
    this.#tracer = tracing ?? noTracer
    const leads = new Leads({ clock: systemClock })
    const counts = new CallCounts(systemClock)
    const identity = createIdentity(
      { log: this.#log, register: this.#register, leads, tracer: this.#tracer },
      { config, product: this.#product, env },
    )
    const tunnels = new Tunnels({ now: () => performance.now() })
    const grpcMetrics = createGrpcServerMetrics(this.#register)
    const cluster = await this.#cluster(tunnels, replicaMethods({ ...identity, leads, counts }))
    const others = cluster ? { replicas: cluster.replicas } : {}
    const router = new Router({ tunnels, observer: createRouterMetrics(this.#register), ...others })
    const posts = configurationPosts(identity, leads, this.#log)
    const { told, services } = this.#overAll(cluster, { identity, leads, counts })
    return [
      ...(tracing ? [tracing] : []), // last to stop: it sends the others' last spans
      ...this.#ops(),
      ...this.#opsSocket(tunnels, cluster),
      ...identity.services,
      ...(cluster ? [whenReady(this.#readiness, 'cluster', cluster)] : []),
      leads,
      ...services,
      ...(posts ? [posts] : []),
      ...this.#agents({ ...identity, ...(posts ? { posts } : {}) }, { tunnels, cluster, counts, metrics: grpcMetrics }),
      ...(await this.#kubernetes(identity, router, { tunnels, cluster })),
      ...this.#rails(told, router, grpcMetrics),
      ...(cluster ? [cluster.serving] : []),
      leaving(this.#readiness),
    ]
  }

  /** Without a secret that replicas share, or an address that they can call, this one is alone. */
  async #cluster(tunnels: Tunnels, methods: ReturnType<typeof replicaMethods>): Promise<Cluster | undefined> {
    const { config, configurationFile, version, env, ownPrivateApi = {} } = this.#options
    const { authentication_secret_file: secretFile, network } = config.private_api.listen
    if (secretFile === undefined || network === 'unix') return undefined
    return Cluster.create(
      { tunnels, register: this.#register, log: this.#log, clock: systemClock, methods, tracer: this.#tracer },
      { config, configurationFile, ownPrivateApi, secretFile, kasVersion: version.version, env },
    )
  }

  #overAll(cluster: Cluster | undefined, shared: Pick<OverAllReplicasComponents, 'identity' | 'leads' | 'counts'>) {
    if (!cluster) return { told: shared.identity, services: [] }
    const { connections_per_token_per_minute: callsPerTokenPerMinute } = this.#options.config.agent.listen
    const log = this.#log.child({ mod_name: 'cluster' })
    return overAllReplicas({ ...shared, cluster, log }, { callsPerTokenPerMinute })
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

  #opsSocket(tunnels: Tunnels, cluster: Cluster | undefined): Service[] {
    const { config, version } = this.#options
    const { socket } = config.ops
    if (socket === undefined) return []
    const name = cluster?.membership.name ?? config.cluster.name ?? hostname()
    const known = {
      name,
      version: version.version,
      readiness: this.#readiness,
      tunnels,
      ...(cluster ? { cluster } : {}),
    }
    const log = this.#log.child({ mod_name: 'observability' })
    const server = new OpsSocket({ answers: opsAnswers(known), log }, { path: socket })
    return [explained(server, this.#place('ops.socket', { network: 'unix', address: socket }))]
  }

  #agents(
    identity: Identity & { posts?: ConfigurationPosts },
    parts: { tunnels: Tunnels; cluster: Cluster | undefined; counts: CallCounts; metrics: GrpcServerMetrics },
  ): Service[] {
    const { tunnels, cluster, counts, metrics } = parts
    const { listen, kubernetes_api: kubernetes } = this.#options.config.agent
    const { rateExceeded } = createAgentMetrics(this.#register, () => tunnels.agentCount)
    const { gitlab, agent } = this.#options.config
    const methods = agentMethods(
      { ...identity, register: this.#register, log: this.#log },
      { gitlabExternalUrl: gitlab.external_url ?? '', pollMs: agent.configuration.poll_period },
    )
    const certificate = certificateOf(this.#log, listen)
    const held = cluster && new HeldConnections({ row: cluster.membership, log: this.#log })
    const server = new AgentsServer(
      {
        directory: identity.directory,
        tunnels,
        methods,
        counts,
        log: this.#log.child({ mod_name: 'agent_server' }),
        onRateExceeded: rateExceeded,
        onRefused: createRefusalMetrics(this.#register),
        ...(held ? { held, placement: new MemberPlacement({ membership: cluster.membership }) } : {}),
        events: grpcObserver(metrics, methodTypes(methods)),
        ...certificate,
        tracer: this.#tracer,
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

  async #kubernetes(
    { directory, usage }: Identity,
    router: Router,
    { tunnels, cluster }: { tunnels: Tunnels; cluster: Cluster | undefined },
  ): Promise<Service[]> {
    const { config, version } = this.#options
    const block = config.agent.kubernetes_api
    if (!block) return []
    const { listen } = block
    const { advertised_version: gitlabVersion } = config.cluster
    const certificate = certificateOf(this.#log, listen)
    const log = this.#log.child({ mod_name: 'kubernetes_api' })
    const tokens = await webSocketTokens({ log, clock: systemClock }, block.websocket_token_secret_file)
    const redirect = await frontRedirect(cluster, { tunnels, file: block.accel_redirect_secret_file })
    const forward = deliver(router.forward)
    const told = { ...tokens, ...redirect, ...certificate, tracer: this.#tracer }
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
  #rails({ connectedAgents, pushEvents, configFiles }: Told, router: Router, metrics: GrpcServerMetrics): Service[] {
    const { api, cluster } = this.#options.config
    const { listen } = api
    const secretFile = listen.authentication_secret_file
    if (secretFile === undefined) return []
    const log = this.#log.child({ mod_name: 'api' })
    const methods = railsMethods(
      { connectedAgents, pushEvents, ...(configFiles ? { configFiles } : {}), clock: systemClock },
      { advertisedVersion: cluster.advertised_version ?? defaultAdvertisedVersion },
    )
    const events = grpcObserver(metrics, railsMethodTypes(methods))
    const certificate = certificateOf(this.#log, listen)
    const server = new RailsServer(
      {
        methods,
        forward: deliver(router.forward),
        clock: systemClock,
        log,
        onRefused: createRailsRefusalMetrics(this.#register),
        events,
        ...certificate,
        tracer: this.#tracer,
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

  get #product(): string {
    return productName('gitlab-kas', this.#options.version)
  }
}

/** Undefined: nobody wants to be told. */
function configurationPosts(
  { directory, configurations }: Identity,
  leads: Leads,
  log: Logger,
): ConfigurationPosts | undefined {
  const { takeConfiguration } = directory
  if (!takeConfiguration) return undefined
  return new ConfigurationPosts({
    configurations,
    directory: { takeConfiguration: takeConfiguration.bind(directory) },
    leads,
    clock: systemClock,
    log: log.child({ mod_name: 'configuration' }),
  })
}

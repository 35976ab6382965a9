import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { createAgentMetrics, createGrpcServerMetrics, type GrpcServerMetrics } from '../lib/metrics.ts'
import { OpsServer } from '../lib/ops-server.ts'
import type { Service } from '../lib/service.ts'
import type { Version } from '../lib/version.ts'
import type { InstanceId } from '../membership/membership.ts'
import type { AccessLog } from './access-log/access-log.ts'
import type { AgentMethod } from './agent-method.ts'
import type { KasConfig } from './config/kas-schema.ts'
import type { Listen } from './config/listen-address.ts'
import type { ReplicaMemory } from './memory/replica-memory.ts'
import type { KasHost, KasModule } from './module.ts'
import { grpcObserver } from './observability/grpc-observer.ts'
import type { Readiness } from './observability/readiness.ts'
import { ownLinesEndpoint } from './own-lines-endpoint.ts'
import type { Peering } from './peering.ts'
import type { ReplicaLinks } from './peers/replica-links.ts'
import type { ClientAddressesOptions } from './servers/addresses/client-addresses.ts'
import { AgentsServer, agentMethodRates, agentMethodTypes } from './servers/agents/agents-server.ts'
import { createRateMetrics } from './servers/agents/limits/agent-rates.ts'
import type { TokenCallCounts } from './servers/agents/limits/token-call-counts.ts'
import { createRefusalMetrics } from './servers/agents/refusals.ts'
import { frontRedirect } from './servers/kubernetes/front-redirect.ts'
import { KubernetesServer } from './servers/kubernetes/kubernetes-server.ts'
import { webSocketTokens } from './servers/kubernetes/watch/websocket-tokens.ts'
import type { ListenPlace } from './servers/listen-failure.ts'
import { announced, certificateOf, explained, listenOptions, whenReady } from './servers/listening.ts'
import {
  linksAnswers,
  logStreams,
  opsAnswers,
  sessionActions,
  sessionAnswers,
} from './servers/ops-socket/ops-answers.ts'
import { OpsSocket } from './servers/ops-socket/ops-socket.ts'
import { createRailsRefusalMetrics, createUnservedMetrics } from './servers/rails/rails-metrics.ts'
import { RailsServer, railsMethodTypes } from './servers/rails/rails-server.ts'
import type { ReplicaLog } from './sessions/replica-log.ts'
import type { ReplicaSessions } from './sessions/replica-sessions.ts'
import type { SessionTable } from './sessions/session-table.ts'
import { MemberPlacement } from './tunnels/home-placement.ts'
import { PublishedConnections } from './tunnels/published-connections.ts'
import type { RefusedCallers } from './tunnels/refused-callers.ts'
import type { TunnelRegistry } from './tunnels/tunnel-registry.ts'

export interface PortsComponents {
  readonly host: KasHost
  readonly tunnels: TunnelRegistry
  readonly memory: ReplicaMemory
  readonly refusedCallers: RefusedCallers
  /** undefined: this replica is alone */
  readonly peering: Peering | undefined
  readonly counts: TokenCallCounts
  readonly modules: readonly KasModule[]
  readonly readiness: Readiness
  /** undefined: there is no access log */
  readonly accessLog: AccessLog | undefined
  /** sessions of this replica */
  readonly table: SessionTable
  /** sessions of all replicas */
  readonly sessions: ReplicaSessions
  readonly replicaLog: ReplicaLog
  /** undefined: this replica is alone */
  readonly replicaLinks: ReplicaLinks | undefined
}

export interface PortsOptions {
  readonly config: KasConfig
  /** file of `config`, for errors */
  readonly configurationFile: string
  readonly version: Version
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
}

/** Part of the allowed questions to GitLab for checks of callers with running calls. */
const checkedPart = 1 / 2

/** The ports on which kas listens, except the one for peers: services in the order of their start. */
export class Ports {
  readonly #components: PortsComponents
  readonly #options: PortsOptions
  readonly #grpcMetrics: GrpcServerMetrics
  /** id of this start of the replica */
  readonly #instance: string

  constructor(components: PortsComponents, options: PortsOptions) {
    this.#components = components
    this.#options = options
    this.#instance = components.peering?.membership.instance ?? randomUUID()
    this.#grpcMetrics = createGrpcServerMetrics(components.host.register)
  }

  /** Server of metrics and probes. */
  ops(): Service[] {
    const { host, readiness } = this.#components
    const { listen, prometheus, liveness_probe, readiness_probe } = this.#options.config.observability
    const log = host.log.child({ mod_name: 'observability' })
    const certificate = certificateOf(host.log, listen)
    const server = new OpsServer(
      { register: host.register, readiness, log, ...certificate },
      {
        listen: listenOptions(listen),
        metricsPath: prometheus.url_path,
        livenessPath: liveness_probe.url_path,
        readinessPath: readiness_probe.url_path,
        product: this.#options.product,
      },
    )
    const place = this.#place('observability.listen.address', listen)
    return [...Object.values(certificate), announced(host.log, server, { name: 'Observability', ...place })]
  }

  /** Socket for `kas status`, `kas route`, `kas log`, `kas sessions` and `kas doctor`. */
  opsSocket(): Service[] {
    const { host, tunnels, peering, refusedCallers, modules, readiness, sessions, replicaLinks, replicaLog } =
      this.#components
    const { config, version } = this.#options
    const { socket } = config.ops
    if (socket === undefined) return []
    const name = peering?.membership.name ?? config.cluster.name ?? hostname()
    const known = { instance: this.#instance, name, version: version.version }
    const answers = opsAnswers({ ...known, readiness, tunnels, refusedCallers, modules, peering })
    const streams = logStreams(replicaLog)
    const server = new OpsSocket(
      {
        answers: { ...answers, ...sessionAnswers(sessions), ...linksAnswers(replicaLinks) },
        actions: sessionActions(sessions),
        streams,
        log: host.log.child({ mod_name: 'observability' }),
      },
      { path: socket },
    )
    return [explained(server, this.#place('ops.socket', { network: 'unix', address: socket }))]
  }

  agents(): Service[] {
    const { host, tunnels, memory, peering, counts, modules, readiness, accessLog } = this.#components
    const { directory, gitlab, register, tracer, log } = host
    const { listen, kubernetes_api: kubernetes } = this.#options.config.agent
    const { rateExceeded } = createAgentMetrics(register, () => tunnels.agentCount)
    const methods: Readonly<Record<string, AgentMethod>> = Object.assign(
      {},
      ...modules.map(({ agentMethods }) => agentMethods),
    )
    const certificate = certificateOf(log, listen)
    const published = peering && new PublishedConnections({ row: peering.membership, log })
    const server = new AgentsServer(
      {
        directory,
        gitlab,
        tunnels,
        memory,
        methods,
        counts,
        log: log.child({ mod_name: 'agent_server' }),
        onRateExceeded: rateExceeded,
        onRefused: createRefusalMetrics(register),
        onOverRate: createRateMetrics(register, Object.keys(agentMethodRates(methods))),
        ...(published ? { published, placement: new MemberPlacement({ membership: peering.membership }) } : {}),
        events: grpcObserver(this.#grpcMetrics, agentMethodTypes(methods)),
        ...(accessLog ? { accessLog } : {}),
        ...certificate,
        tracer,
      },
      {
        listen: listenOptions(listen),
        websocket: listen.websocket,
        addresses: addressesOf(listen),
        product: this.#options.product,
        listenGraceMs: listen.listen_grace_period,
        ...(kubernetes
          ? {
              shutdownGraceMs: kubernetes.listen.shutdown_grace_period,
              watchGraceMs: kubernetes.listen.watch_grace_period,
            }
          : {}),
        age: { maxAgeMs: listen.max_connection_age },
        hints: { features: modules.flatMap(({ features }) => features ?? []).sort(descending) },
        authenticator: { callsPerTokenPerMinute: listen.connections_per_token_per_minute },
      },
    )
    const place = this.#place('agent.listen.address', listen)
    const listening = announced(log, server, { name: 'Agentk API', ...place, is_websocket: listen.websocket })
    return [...Object.values(certificate), whenReady(readiness, 'agentServer', listening)]
  }

  async kubernetes(): Promise<Service[]> {
    const { host, tunnels, memory, peering, modules, accessLog, table, replicaLog } = this.#components
    const { forward, directory, localDirectory, usage, register, tracer, clock } = host
    const { config, version, product } = this.#options
    const block = config.agent.kubernetes_api
    if (!block) return []
    const { listen, url_path_prefix } = block
    const { advertised_version: gitlabVersion } = config.cluster
    const certificate = certificateOf(host.log, listen)
    const log = host.log.child({ mod_name: 'kubernetes_api' })
    const tokens = await webSocketTokens({ log, clock }, block.websocket_token_secret_file)
    const redirect = await frontRedirect(peering, { tunnels, file: block.accel_redirect_secret_file })
    const endpoints = [...modules.flatMap((module) => module.endpoints ?? []), ownLinesEndpoint(replicaLog)]
    const observers = modules.flatMap(({ observe }) => observe ?? [])
    const server = new KubernetesServer(
      {
        forward,
        directory,
        localDirectory,
        usage,
        register,
        memory,
        log,
        endpoints,
        sessionTable: table,
        isReplica: (instance) => this.#isReplica(instance),
        observers,
        ...(accessLog ? { accessLog } : {}),
        ...(peering ? { callerKeys: peering.callerKeys } : {}),
        ...tokens,
        ...redirect,
        ...certificate,
        tracer,
      },
      {
        listen: listenOptions(listen),
        urlPathPrefix: url_path_prefix,
        ...(config.gitlab.external_url ? { externalUrl: config.gitlab.external_url } : {}),
        listenGraceMs: listen.listen_grace_period,
        shutdownGraceMs: listen.shutdown_grace_period,
        watchGraceMs: listen.watch_grace_period,
        addresses: addressesOf(listen),
        product,
        ...(config.directory.file === undefined
          ? { accessChecksPerSecond: config.gitlab.api_rate_limit.refill_rate_per_second * checkedPart }
          : {}),
        ...(gitlabVersion ? { versions: { kas: version.version, gitlab: gitlabVersion } } : {}),
        ...(block.response_header_allowlist ? { allowedResponseHeaders: block.extra_allowed_response_headers } : {}),
      },
    )
    const place = this.#place('agent.kubernetes_api.listen.address', listen)
    const listening = announced(host.log, server, { name: 'Kubernetes API', ...place, url_path_prefix })
    return [...Object.values(certificate), listening]
  }

  /** Server for Rails; there is none without its secret, with which each caller is checked. */
  rails(): Service[] {
    const { host, modules, readiness } = this.#components
    const { forward, clock, tracer, register } = host
    const { listen } = this.#options.config.api
    const secretFile = listen.authentication_secret_file
    if (secretFile === undefined) return []
    const methods = new Map(modules.flatMap(({ railsMethods }) => [...(railsMethods ?? [])]))
    const certificate = certificateOf(host.log, listen)
    const server = new RailsServer(
      {
        methods,
        forward,
        clock,
        log: host.log.child({ mod_name: 'api' }),
        onRefused: createRailsRefusalMetrics(register),
        onUnserved: createUnservedMetrics(register),
        events: grpcObserver(this.#grpcMetrics, railsMethodTypes(methods)),
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
    const listening = announced(host.log, server, { name: 'API', ...this.#place('api.listen.address', listen) })
    return [...Object.values(certificate), whenReady(readiness, 'apiServer', listening)]
  }

  #isReplica(instance: string): boolean {
    const { peering } = this.#components
    return peering ? peering.membership.row(instance as InstanceId) !== undefined : instance === this.#instance
  }

  #place(key: string, listen: Listen): ListenPlace {
    return { file: this.#options.configurationFile, key, listen }
  }
}

/** Order of features: the same at all replicas and of all versions, whatever the order of modules. */
function descending(one: string, other: string): number {
  return one < other ? 1 : -1
}

function addressesOf(listen: { trusted_proxies: string[]; proxy_protocol: boolean }): ClientAddressesOptions {
  return { trustedProxies: listen.trusted_proxies, proxyProtocol: listen.proxy_protocol }
}

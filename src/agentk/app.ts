import { randomUUID } from 'node:crypto'
import { create } from '@bufbuild/protobuf'
import type { Metadata } from '../call/call.ts'
import { CertificateFiles } from '../lib/certificate-files.ts'
import { systemClock } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import { createBuildMetrics, createRegistry } from '../lib/metrics.ts'
import { OpsServer } from '../lib/ops-server.ts'
import { type Service, Stages } from '../lib/service.ts'
import type { Tracer } from '../lib/tracing/tracer.ts'
import { productName, type Version } from '../lib/version.ts'
import { type AgentMeta, AgentMetaSchema } from '../proto/gen/entity_pb.ts'
import { kubernetesApiMethod } from '../proto/http/http-over-grpc.ts'
import { ApiClient } from './cluster/api-client.ts'
import type { ClusterAccess } from './cluster/cluster-access.ts'
import { askKubernetesVersion } from './cluster/kubernetes-version.ts'
import type { Config } from './config/config.ts'
import { Configuration } from './configuration/configuration.ts'
import { Loggers } from './configuration/loggers.ts'
import { Election } from './election/election.ts'
import { LeaseClient } from './election/lease-client.ts'
import { Flux } from './modules/flux/flux.ts'
import { KubernetesApi } from './modules/kubernetes-api/kubernetes-api.ts'
import { Leader } from './modules/leader/leader.ts'
import { Registrar } from './modules/registrar/registrar.ts'
import { allowedAddress } from './tunnels/allowed-address.ts'
import { connectionBuilder } from './tunnels/connection-builder.ts'
import { KasConnections } from './tunnels/kas-connections.ts'
import { tracedServe } from './tunnels/traced-serve.ts'
import { createAgentkMetrics } from './tunnels/tunnel-metrics.ts'

export interface AppComponents {
  readonly log: Logger
  readonly access: ClusterAccess
  /** absent: nothing is traced */
  readonly tracing?: Tracer & Service
}

export interface AppOptions {
  readonly config: Config
  readonly version: Version
}

const time = { clock: systemClock, random: Math.random }

/** All parts of agentk, built and staged. */
export class App implements Service {
  readonly #config: Config
  readonly #version: Version
  readonly #product: string
  readonly #loggers: Loggers
  readonly #client: ApiClient
  readonly #kas: KasConnections
  readonly #stages: Stages

  constructor({ log, access, tracing }: AppComponents, { config, version }: AppOptions) {
    this.#config = config
    this.#version = version
    this.#product = productName('gitlab-agent', version)
    this.#loggers = new Loggers(log)
    this.#client = new ApiClient(access)
    this.#kas = this.#createLanes(tracing)
    const { configuration, registrar } = this.#createModules()
    const election = this.#createElection()
    const leader = new Leader({ election, log: this.#loggers.of('leader'), ...time })
    const flux = this.#createFlux(election)
    configuration.onConfiguration((received) => {
      this.#loggers.apply(received)
      flux.configure(received)
      election.begin(`agent-${received.agentId}-lock`)
    })
    const ops = this.#createOps(election, flux)
    const closing: Service = { start: async () => undefined, stop: () => this.#client.close() }
    this.#stages = new Stages([
      ...(tracing ? [tracing] : []), // last to stop: it sends the others' last spans
      ...ops,
      closing,
      this.#kas,
      configuration,
      registrar,
      election,
      leader,
      flux,
      this.#kas.tunnels,
    ])
  }

  async start(): Promise<void> {
    await this.#stages.start()
    this.#loggers.root.info('agentk is up')
  }

  /** New calls are not taken; running ones may end until `patience` aborts. */
  async stop(patience?: AbortSignal): Promise<void> {
    await this.#stages.stop(patience)
  }

  #createLanes(tracer: Tracer | undefined): KasConnections {
    const { kas, token, env, pod } = this.#config
    const { address: own, allowHome: alsoAllowed } = kas
    const traced = tracer ? { tracer } : {}
    const { forward } = new KubernetesApi({ client: this.#client, ...traced }, { product: this.#product })
    const methods = new Map([[kubernetesApiMethod, tracer ? tracedServe(tracer, forward) : forward]])
    const logs = { sessions: this.#loggers.of('kas_link'), tunnels: this.#loggers.of('reverse_tunnel') }
    const transport = { ...kas, userAgent: this.#product, authorization: () => `Bearer ${token()}`, env }
    return new KasConnections({
      build: connectionBuilder({ methods, metadata: this.#metadata, logs, ...time }, { transport, pod: pod.name }),
      allowed: (address) => allowedAddress(address, { own, alsoAllowed }),
      log: logs.sessions,
      clock: systemClock,
    })
  }

  #createModules(): { configuration: Configuration; registrar: Registrar } {
    const components = { kas: this.#kas, metadata: this.#metadata, ...time }
    const meta = agentMeta(this.#config, this.#version)
    const kubernetesVersion = (signal: AbortSignal) => askKubernetesVersion(this.#client, signal)
    const log = this.#loggers.of('agent_registrar')
    return {
      configuration: new Configuration({ ...components, log: this.#loggers.of('agent_configuration') }, { meta }),
      registrar: new Registrar({ ...components, kubernetesVersion, log }, { meta, server: this.#client.access.server }),
    }
  }

  #createElection(): Election {
    const { namespace, name } = this.#config.pod
    const leases = new LeaseClient(this.#client, { namespace })
    const identity = `${name}_${randomUUID()}`
    return new Election({ leases, log: this.#loggers.of('leader'), ...time }, { identity })
  }

  #createFlux(election: Election): Flux {
    const log = this.#loggers.of('gitlab_flux')
    return new Flux({ client: this.#client, kas: this.#kas, metadata: this.#metadata, election, log, ...time })
  }

  #createOps(election: Election, flux: Flux): Service[] {
    const { listen, certificate: files } = this.#config.observability
    const kas = this.#kas
    const register = createRegistry()
    createBuildMetrics(register, this.#version)
    createAgentkMetrics(register, {
      tunnels: () => kas.counts,
      connected: () => kas.connected,
      leads: () => election.holds(),
      webhooks: () => flux.counts,
    })
    const log = this.#loggers.of('observability')
    const certificate = files && new CertificateFiles({ log }, files)
    const readiness = { problem: () => (kas.connected ? undefined : 'kas: not connected') }
    const components = { register, readiness, log, ...(certificate ? { certificate } : {}) }
    const server = new OpsServer(components, { listen, product: this.#product })
    return certificate ? [certificate, server] : [server]
  }

  /**
   * `--kas-header` goes with each call where there is no upgrade to carry it (doc/reference/tunnel-protocol.md 2.3).
   */
  readonly #metadata = (): Metadata => {
    const { kas, token } = this.#config
    const metadata: Record<string, string[]> = {}
    if (!kas.address.webSocket) {
      for (const [name, value] of kas.headers) {
        const key = name.toLowerCase()
        metadata[key] = [...(metadata[key] ?? []), value]
      }
    }
    metadata.authorization = [`Bearer ${token()}`]
    return metadata
  }
}

function agentMeta({ pod }: Config, { version, commit }: Version): AgentMeta {
  return create(AgentMetaSchema, {
    version: `v${version}`,
    commitId: commit,
    podNamespace: pod.namespace,
    podName: pod.name,
  })
}

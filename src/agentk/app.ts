import { randomUUID } from 'node:crypto'
import { CertificateFiles } from '../lib/certificate-files.ts'
import { systemClock } from '../lib/clock.ts'
import { KasError } from '../lib/errors.ts'
import { type ListenAttempt, listenProblem } from '../lib/listen-problem.ts'
import type { Logger } from '../lib/log.ts'
import { createBuildMetrics, createRegistry } from '../lib/metrics.ts'
import { OpsServer } from '../lib/ops-server.ts'
import { type Service, Stages } from '../lib/service.ts'
import { noTracer, type Tracer } from '../lib/tracing/tracer.ts'
import type { Version } from '../lib/version.ts'
import { ApiClient } from './cluster/api-client.ts'
import type { ClusterAccess } from './cluster/cluster-access.ts'
import { Identities } from './cluster/identities.ts'
import { ServerClock } from './cluster/server-clock.ts'
import type { Config } from './config/config.ts'
import { Configuration } from './configuration/configuration.ts'
import { Loggers } from './configuration/loggers.ts'
import { Election } from './election/election.ts'
import { LeaseClient } from './election/lease-client.ts'
import { Terms } from './election/terms.ts'
import { WrittenRules } from './health/custom/written-rules.ts'
import type { AgentkHost, AgentkModule } from './module.ts'
import { createFlux } from './modules/flux/module.ts'
import { createGitops } from './modules/gitops/module.ts'
import { createKubernetesApi } from './modules/kubernetes-api/module.ts'
import { createLeader } from './modules/leader/module.ts'
import { createRegistrar } from './modules/registrar/module.ts'
import { createViews } from './modules/views/module.ts'
import { callMetadata, selfOf } from './self.ts'
import { connectionBuilder } from './tunnels/connection-builder.ts'
import { allowedAddress } from './tunnels/kas-address.ts'
import { KasConnections } from './tunnels/kas-connections.ts'
import { type Serve, tracedServe } from './tunnels/serve.ts'
import { createTunnelMetrics } from './tunnels/tunnel-metrics.ts'

export interface AppComponents {
  readonly log: Logger
  readonly access: ClusterAccess
  /** undefined: nothing is traced */
  readonly tracing?: (Tracer & Service) | undefined
  /** modules besides agentk's own */
  readonly modules?: readonly CreateModule[]
}

export interface AppOptions {
  readonly config: Config
  readonly version: Version
}

export type CreateModule = (host: AgentkHost) => AgentkModule

function modulesOf({ viewsTokenFile, env }: Config): readonly CreateModule[] {
  const written = new WrittenRules()
  return [
    createKubernetesApi,
    createRegistrar,
    createLeader,
    (host) => createFlux(host),
    (host) => createGitops(host, { path: env.PATH ?? '', written }),
    (host) => createViews(host, { tokenFile: viewsTokenFile, written }),
  ]
}

const time = { clock: systemClock, random: Math.random }

/** All parts of agentk, which start and stop in stages. */
export class App implements Service {
  readonly #config: Config
  readonly #loggers: Loggers
  readonly #host: AgentkHost
  readonly #modules: readonly AgentkModule[]
  readonly #stages: Stages

  constructor({ log, access, tracing, modules: others = [] }: AppComponents, { config, version }: AppOptions) {
    this.#config = config
    this.#loggers = new Loggers(log)
    const self = selfOf(config, version)
    const serverClock = new ServerClock(systemClock)
    const api = new ApiClient(access, { onDate: (date, waitedMs) => serverClock.answered(date, waitedMs) })
    const kas = this.#createConnections(self)
    const configuration = this.#createConfiguration(kas, self)
    const election = this.#createElection(api)
    const register = createRegistry()
    createBuildMetrics(register, version)
    createTunnelMetrics(register, kas)
    const identities = this.#createIdentities(access)
    const parts = { api, identities, kas, configuration, election, self, register, serverClock, ...time }
    this.#host = { ...parts, tracer: tracing ?? noTracer, log: (part) => this.#loggers.of(part) }
    this.#modules = [...modulesOf(config), ...others].map((createModule) => createModule(this.#host))
    // the last listener: when the election begins, all others have applied the first configuration
    configuration.onChange(({ agentId }) => election.begin(`agent-${agentId}-lock`))
    this.#stages = new Stages([
      ...(tracing ? [tracing] : []), // last to stop: it sends the others' last spans
      ...this.#createOps(),
      { start: async () => undefined, stop: () => api.close() },
      kas,
      configuration,
      ...this.#modules.flatMap(({ services = [] }) => services),
      election,
      ...this.#createTerms(),
      kas.tunnels,
    ])
  }

  async start(): Promise<void> {
    await this.#stages.start()
    this.#loggers.root.info('agentk is up')
  }

  /** Takes no new calls. Running calls may end until `patience` aborts. */
  async stop(patience?: AbortSignal): Promise<void> {
    await this.#stages.stop(patience)
  }

  #createConnections({ product }: AgentkHost['self']): KasConnections {
    const { kas, token, env, pod } = this.#config
    const { address: own, allowHome: alsoAllowed } = kas
    const metadata = () => callMetadata(this.#config)
    const methods = () => this.#methods()
    const logs = { sessions: this.#loggers.of('kas_link'), tunnels: this.#loggers.of('reverse_tunnel') }
    const transport = { ...kas, userAgent: product, authorization: () => `Bearer ${token()}`, env }
    return new KasConnections({
      build: connectionBuilder({ methods, metadata, logs, ...time }, { transport, pod: pod.name }),
      metadata,
      allowed: (address) => allowedAddress(address, { own, alsoAllowed }),
      log: logs.sessions,
      ...time,
    })
  }

  #createIdentities({ impersonation: own }: ClusterAccess): Identities {
    return new Identities({ log: this.#loggers.of('kubernetes_api') }, { own, may: this.#config.mayImpersonate })
  }

  #methods(): ReadonlyMap<string, Serve> {
    const { tracer } = this.#host
    const all = this.#modules.flatMap(({ methods }) => [...(methods ?? [])])
    return new Map(all.map(([name, serve]) => [name, tracedServe(tracer, serve)]))
  }

  /** Registers the log as the first listener: a configuration sets the log level before anything else reads it. */
  #createConfiguration(kas: KasConnections, { meta }: AgentkHost['self']): Configuration {
    const features = () => this.#modules.flatMap((module) => module.features ?? [])
    const log = this.#loggers.of('agent_configuration')
    const configuration = new Configuration({ kas, log, ...time }, { meta, features })
    configuration.onChange((received) => this.#loggers.apply(received))
    return configuration
  }

  #createElection(api: ApiClient): Election {
    const { namespace, name } = this.#config.pod
    const leases = new LeaseClient(api, { namespace })
    const identity = `${name}_${randomUUID()}`
    return new Election({ leases, log: this.#loggers.of('leader'), ...time }, { identity })
  }

  #createTerms(): Service[] {
    const { election, log } = this.#host
    return this.#modules.flatMap(({ lead }) => (lead ? [new Terms({ election, log: log('leader') }, lead)] : []))
  }

  #createOps(): Service[] {
    const { listen, address, certificate: files } = this.#config.observability
    const { kas, register, self } = this.#host
    const log = this.#loggers.of('observability')
    const certificate = files && new CertificateFiles({ log }, files)
    const readiness = { problem: () => (kas.connected ? undefined : 'kas: not connected') }
    const components = { register, readiness, log, ...(certificate ? { certificate } : {}) }
    const server = new OpsServer(components, { listen, product: self.product })
    const start = () => server.start().catch((error: unknown) => Promise.reject(listenFailure(error, listen, address)))
    const named = { start, stop: (patience?: AbortSignal) => server.stop(patience) }
    return certificate ? [certificate, named] : [named]
  }
}

/** Turns an error of listening into a SETTINGS_INVALID that names the flag, if the next step is known. */
function listenFailure(error: unknown, at: ListenAttempt['at'], address: string): unknown {
  const problem = listenProblem(error, { at, address, program: 'agentk' })
  if (problem === undefined) return error
  const file = `--observability-listen-address ${address}`
  return new KasError({ code: 'SETTINGS_INVALID', file, problems: [problem] }, { cause: error })
}

import { randomUUID } from 'node:crypto'
import { create } from '@bufbuild/protobuf'
import { CertificateFiles } from '../lib/certificate-files.ts'
import { systemClock } from '../lib/clock.ts'
import type { Logger, LogLevel } from '../lib/log.ts'
import { type Service, Stages } from '../lib/service.ts'
import { productName, type Version } from '../lib/version.ts'
import type { Metadata } from '../proto/call.ts'
import { type AgentConfiguration, log_level_enum } from '../proto/gen/agentcfg_pb.ts'
import { AgentMetaSchema } from '../proto/gen/entity_pb.ts'
import { kubernetesApiMethod } from '../proto/http-over-grpc.ts'
import { ApiClient } from './cluster/api-client.ts'
import type { ClusterAccess } from './cluster/cluster-access.ts'
import type { Config } from './config.ts'
import { Election } from './election/election.ts'
import { LeaseClient } from './election/lease-client.ts'
import { createMetrics } from './metrics.ts'
import { Configuration } from './modules/configuration.ts'
import { KubernetesApi } from './modules/kubernetes-api/kubernetes-api.ts'
import { Leader } from './modules/leader.ts'
import { type KubernetesVersionInfo, Registrar } from './modules/registrar.ts'
import { Observability } from './observability.ts'
import { KasLink } from './tunnels/kas-link.ts'
import { TunnelPool } from './tunnels/pool.ts'
import { dialKas } from './tunnels/transport.ts'

export interface AppComponents {
  readonly log: Logger
  readonly access: ClusterAccess
}

export interface AppOptions {
  readonly config: Config
  readonly version: Version
}

const time = { clock: systemClock, random: Math.random }

/** All parts of agentk, built and staged. */
export class App implements Service {
  /** where metrics and probes are; for tests that listen on port 0 */
  readonly observability: Observability
  readonly #stages: Stages
  readonly #log: Logger

  constructor({ log, access }: AppComponents, { config, version }: AppOptions) {
    this.#log = log
    const product = productName('gitlab-agent', version)
    const loggers = [log]
    const child = (name: string) => {
      const logger = log.child({ mod_name: name })
      loggers.push(logger)
      return logger
    }
    const client = new ApiClient(access)
    const link = createLink(child('kas_link'), config, product)
    const metadata = () => callMetadata(config)
    const shared = { link, metadata, log, ...time }

    const kubernetesApi = new KubernetesApi({ client }, { product })
    const methods = new Map([[kubernetesApiMethod, kubernetesApi.forward]])
    const pool = new TunnelPool({ ...shared, methods, log: child('reverse_tunnel') })

    const meta = create(AgentMetaSchema, {
      version: `v${version.version}`,
      commitId: version.commit,
      podNamespace: config.pod.namespace,
      podName: config.pod.name,
    })
    const configuration = new Configuration({ ...shared, log: child('agent_configuration') }, { meta })
    const kubernetesVersion = (signal: AbortSignal) => askVersion(client, signal)
    const registrar = new Registrar({ ...shared, kubernetesVersion, log: child('agent_registrar') }, { meta })

    const leases = new LeaseClient(client, { namespace: config.pod.namespace })
    const leaderLog = child('leader')
    const identity = `${config.pod.name}_${randomUUID()}`
    const election = new Election({ leases, log: leaderLog, ...time }, { identity })
    const leader = new Leader({ election, log: leaderLog, ...time })
    configuration.onConfiguration((received) => {
      applyLogLevel(loggers, received)
      election.begin(`agent-${received.agentId}-lock`)
    })

    const register = createMetrics(
      { tunnels: () => pool.counts, connected: () => link.connected, leads: () => election.holds() },
      version,
    )
    this.observability = createObservability(config, { log, link, register, product })
    const closing: Service = { start: async () => undefined, stop: () => client.close() }
    this.#stages = new Stages([this.observability, closing, link, configuration, registrar, election, leader, pool])
  }

  async start(): Promise<void> {
    await this.#stages.start()
    this.#log.info('agentk is up')
  }

  /** New calls are not taken; running ones may end until `patience` aborts. */
  async stop(patience?: AbortSignal): Promise<void> {
    await this.#stages.stop(patience)
  }
}

function createLink(log: Logger, { kas, token, env }: Config, userAgent: string): KasLink {
  const transport = { ...kas, userAgent, authorization: () => `Bearer ${token()}`, env }
  return new KasLink(
    { dial: (signal) => dialKas(transport, signal), log, ...time },
    // inside a WebSocket HTTP/2 is in the clear, whatever is around it
    { authority: kas.address.authority, scheme: kas.address.scheme === 'grpcs' ? 'https' : 'http', userAgent },
  )
}

/** `--kas-header` goes with each call where there is no upgrade to carry it (wire-protocol 2.3). */
function callMetadata({ kas, token }: Config): Metadata {
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

function createObservability(
  { observability }: Config,
  {
    log,
    link,
    register,
    product,
  }: { log: Logger; link: KasLink; register: ReturnType<typeof createMetrics>; product: string },
): Observability {
  const certificate = observability.certificate && new CertificateFiles({ log }, observability.certificate)
  const problem = () => (link.connected ? undefined : 'kas: not connected')
  return new Observability(
    { register, problem, ...(certificate ? { certificate } : {}) },
    { listen: observability.listen, product },
  )
}

/** @throws Error when the API server does not answer with a version */
async function askVersion(client: ApiClient, signal: AbortSignal): Promise<KubernetesVersionInfo> {
  const { status, body } = await client.json('GET', '/version', undefined, signal)
  if (status !== 200 || typeof body !== 'object' || !body) throw new Error(`/version was answered with ${status}`)
  const { major = '', minor = '', gitVersion = '', platform = '' } = body as Partial<KubernetesVersionInfo>
  return { major, minor, gitVersion, platform }
}

const logLevels: Record<number, LogLevel> = {
  [log_level_enum.info]: 'info',
  [log_level_enum.debug]: 'debug',
  [log_level_enum.warn]: 'warn',
  [log_level_enum.error]: 'error',
}

function applyLogLevel(loggers: readonly Logger[], { observability }: AgentConfiguration): void {
  const level = logLevels[observability?.logging?.level ?? log_level_enum.info]
  if (level && observability?.logging) for (const logger of loggers) logger.level = level
}

import { hostname, networkInterfaces } from 'node:os'
import type { Clock } from '../lib/clock.ts'
import { KasError } from '../lib/errors.ts'
import type { Logger } from '../lib/log.ts'
import type { Registry } from '../lib/metrics.ts'
import type { Service } from '../lib/service.ts'
import type { Tracer } from '../lib/tracing/tracer.ts'
import { createDiscovery, Membership, runsInCluster } from '../membership/membership.ts'
import type { Handler, ServerSessionEvents } from '../proto/grpc/server-session.ts'
import { unreachableGossip } from './config/gossip-listen.ts'
import type { KasConfig } from './config/kas-config.ts'
import { type OwnPrivateApi, type ReplicaPlace, replicaPlace } from './config/own-private-api.ts'
import { readPrivateApiSecret } from './config/secret-file.ts'
import { createLinkMetrics } from './replicas/link-metrics.ts'
import { Replicas } from './replicas/links.ts'
import { createReplicaIdentity, type ReplicaIdentity } from './replicas/replica-identity.ts'
import { announced, explained, listenOptions } from './servers/listening.ts'
import { ReplicasServer } from './servers/replicas/replicas-server.ts'
import { createStrangersMetric } from './servers/replicas/strangers.ts'
import type { Tunnels } from './tunnels/tunnels.ts'

export interface ClusterComponents {
  readonly tunnels: Tunnels
  readonly register: Registry
  readonly log: Logger
  readonly clock: Clock
  /** calls between replicas themselves */
  readonly methods: Readonly<Record<string, Handler>>
  readonly events?: ServerSessionEvents
  /** absent: nothing is traced */
  readonly tracer: Tracer
}

export interface ClusterOptions {
  readonly config: Pick<KasConfig, 'cluster' | 'private_api'>
  /** where `config` was read, for errors */
  readonly configurationFile: string
  readonly ownPrivateApi: OwnPrivateApi
  readonly secretFile: string
  readonly kasVersion: string
  readonly env: Readonly<Record<string, string | undefined>>
}

interface Secrets {
  readonly secret: Uint8Array
  readonly previousSecret?: Uint8Array
  readonly identity: ReplicaIdentity
}

/** This replica among the others: who they are, the links to them, and the server that they call. */
export class Cluster implements Service {
  readonly membership: Membership
  readonly replicas: Replicas
  readonly #server: ReplicasServer
  readonly #announced: Service
  readonly #joining: Service
  readonly #knownKeys = new Set<string>()
  readonly #place: ReplicaPlace

  /** @throws KasError SETTINGS_INVALID */
  static async create(components: ClusterComponents, options: ClusterOptions): Promise<Cluster> {
    const { secret, short } = await readPrivateApiSecret(options.secretFile)
    if (short) components.log.warn('The secret of the private API has fewer than 32 bytes')
    const previous = await readPreviousSecret(options.config.cluster.previous_authentication_secret_file)
    return new Cluster(components, { ...options, secret, ...previous, identity: await createReplicaIdentity() })
  }

  private constructor(components: ClusterComponents, options: ClusterOptions & Secrets) {
    const { identity } = options
    const log = components.log.child({ mod_name: 'cluster' })
    this.#place = placeOf(options, log)
    const unreachable = unreachableGossip(options.config.cluster)
    if (unreachable !== undefined) log.warn(unreachable)
    this.membership = createMembership({ ...components, log }, { ...options, place: this.#place })
    this.replicas = new Replicas({ membership: this.membership, identity, log, tracer: components.tracer })
    createLinkMetrics(components.register, this.replicas)
    const { configurationFile: file } = options
    const { listen } = options.config.private_api
    const onStranger = createStrangersMetric(components.register)
    this.#server = new ReplicasServer(
      { ...components, identity, log, isKnown: (hash) => this.#knownKeys.has(hash), onStranger },
      { listen: listenOptions(listen), listenGraceMs: listen.listen_grace_period },
    )
    this.#announced = announced(log, this.#server, {
      name: 'Private API',
      file,
      key: 'private_api.listen.address',
      listen,
    })
    this.#joining = explained(this.membership, {
      file,
      key: 'cluster.listen.address',
      listen: options.config.cluster.listen,
    })
  }

  /** Resolves once this replica knows the others: the servers that need it can start. */
  async start(): Promise<void> {
    this.membership.onChange(({ agentIds }) => {
      if (agentIds === 'members') this.#learnKeys()
    })
    await this.#announced.start()
    this.membership.setReplicaPort(this.#place.port ?? this.#server.address.port)
    await this.#joining.start()
    this.#learnKeys()
    await this.replicas.start()
  }

  /** The others choose this replica last for new calls; those that come all the same are served. */
  async leave(patience?: AbortSignal): Promise<void> {
    this.membership.setState('leaving')
    await this.#server.leave(patience)
  }

  async stop(patience?: AbortSignal): Promise<void> {
    await this.#server.stop(patience)
    await this.replicas.stop()
    await this.membership.stop()
  }

  /** Last of all to start: the others may choose this replica from now on. */
  get serving(): Service {
    return { start: async () => this.membership.setState('serving'), stop: async () => undefined }
  }

  #learnKeys(): void {
    this.#knownKeys.clear()
    for (const { head } of this.membership.rows()) this.#knownKeys.add(head.publicKeyHash)
  }
}

/** @throws KasError SETTINGS_INVALID: a replica that cannot read it would be alone while the secret is changed */
async function readPreviousSecret(file: string | undefined): Promise<{ previousSecret?: Uint8Array }> {
  if (file === undefined) return {}
  const { secret } = await readPrivateApiSecret(file, 'cluster.previous_authentication_secret_file')
  return { previousSecret: secret }
}

function createMembership(
  { log, clock, register }: Pick<ClusterComponents, 'log' | 'clock' | 'register'>,
  options: ClusterOptions & Secrets & { place: ReplicaPlace },
): Membership {
  const { config, env, secret, previousSecret, identity, kasVersion, place } = options
  const { cluster, private_api } = config
  const gossip = tcpOptions(cluster.listen)
  const discovery = createDiscovery(
    { log, clock, random: Math.random },
    {
      settings: cluster.discovery,
      surroundings: { inCluster: runsInCluster(env), gossipPort: gossip.port },
    },
  )
  return new Membership(
    { log, clock, metrics: register, sources: discovery.sources },
    {
      name: cluster.name ?? hostname(),
      secret,
      ...(previousSecret ? { previousSecret } : {}),
      listen: gossip,
      replica: { port: tcpOptions(private_api.listen).port, ...place },
      publicKeyHash: identity.publicKeyHash,
      kasVersion,
      ...(cluster.agent_address === undefined ? {} : { agentAddress: cluster.agent_address }),
    },
  )
}

/** What the environment says of it has no use without others, and stops nobody. */
function placeOf({ config, ownPrivateApi }: ClusterOptions, log: Logger): ReplicaPlace {
  const warn = (text: string) => log.warn(text)
  return replicaPlace(ownPrivateApi, tcpOptions(config.private_api.listen), { interfaces: networkInterfaces, warn })
}

/** @throws KasError SETTINGS_INVALID */
function tcpOptions(listen: KasConfig['private_api']['listen'] | KasConfig['cluster']['listen']) {
  const options = listenOptions(listen)
  if ('port' in options) return options
  const problems = [`${options.path}: found a Unix socket, allowed: a TCP address`]
  throw new KasError({ code: 'SETTINGS_INVALID', file: 'configuration', problems })
}

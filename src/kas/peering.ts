import { hostname, networkInterfaces } from 'node:os'
import type { Clock } from '../lib/clock.ts'
import { KasError } from '../lib/errors.ts'
import type { Logger } from '../lib/log.ts'
import type { Registry } from '../lib/metrics.ts'
import type { Service } from '../lib/service.ts'
import type { Tracer } from '../lib/tracing/tracer.ts'
import { createSources, Membership, runsInCluster } from '../membership/membership.ts'
import { serveUnary, type UnaryMethods } from '../proto/unary.ts'
import { unreachableGossip } from './config/gossip-listen.ts'
import type { KasConfig } from './config/kas-schema.ts'
import { type OwnPrivateApi, type ReplicaPlace, replicaPlace } from './config/own-private-api.ts'
import { readPrivateApiSecret } from './config/secret-file.ts'
import type { ReplicaMemory } from './memory/replica-memory.ts'
import { createLinkMetrics, Links } from './peers/links.ts'
import { LinkPeers } from './peers/peers.ts'
import { createReplicaIdentity, type ReplicaIdentity } from './peers/replica-identity.ts'
import { CallerKeys } from './servers/kubernetes/authorization/caller-keys.ts'
import { announced, explained, listenOptions } from './servers/listening.ts'
import { createStrangersMetric, ReplicasServer } from './servers/replicas/replicas-server.ts'
import type { TunnelRegistry } from './tunnels/tunnel-registry.ts'

export interface PeeringComponents {
  readonly register: Registry
  readonly log: Logger
  readonly clock: Clock
  readonly memory: ReplicaMemory
  readonly tracer: Tracer
}

export interface PeeringOptions {
  readonly config: Pick<KasConfig, 'cluster' | 'private_api'>
  /** file of `config`, for errors */
  readonly configurationFile: string
  readonly ownPrivateApi: OwnPrivateApi
  readonly secretFile: string
  readonly kasVersion: string
  readonly env: Readonly<Record<string, string | undefined>>
}

interface Secrets {
  readonly secret: Uint8Array
  readonly previousSecret: Uint8Array | undefined
  readonly identity: ReplicaIdentity
}

/** This replica and its peers, with the links to them. */
export class Peering {
  readonly membership: Membership
  readonly links: Links
  readonly peers: LinkPeers
  readonly callerKeys: CallerKeys
  readonly #components: PeeringComponents
  readonly #options: PeeringOptions & Secrets
  readonly #place: ReplicaPlace
  readonly #log: Logger

  /** @throws KasError SETTINGS_INVALID */
  static async create(components: PeeringComponents, options: PeeringOptions): Promise<Peering> {
    const { secret, short } = await readPrivateApiSecret(options.secretFile)
    if (short) components.log.warn('The secret of the private API has fewer than 32 bytes')
    const previousSecret = await readPreviousSecret(options.config.cluster.previous_authentication_secret_file)
    return new Peering(components, { ...options, secret, previousSecret, identity: await createReplicaIdentity() })
  }

  private constructor(components: PeeringComponents, options: PeeringOptions & Secrets) {
    const { register, clock, memory, tracer } = components
    const log = components.log.child({ mod_name: 'cluster' })
    this.#components = components
    this.#options = options
    this.#log = log
    this.callerKeys = new CallerKeys(options.secret)
    this.#place = placeOf(options, log)
    const unreachable = unreachableGossip(options.config.cluster)
    if (unreachable !== undefined) log.warn(unreachable)
    this.membership = createMembership({ register, clock, log }, { ...options, place: this.#place })
    this.links = new Links({ membership: this.membership, identity: options.identity, memory, log, tracer })
    createLinkMetrics(register, this.links)
    this.peers = new LinkPeers({ membership: this.membership, links: this.links, clock, log })
  }

  /**
   * Service of the peering, with the server that peers call.
   *
   * @param served.methods - methods for peers, beside those that pass on calls
   */
  service(served: { readonly tunnels: TunnelRegistry; readonly methods: UnaryMethods }): Service {
    const { identity, configurationFile: file, config } = this.#options
    const { register, memory, tracer } = this.#components
    const { listen } = config.private_api
    const knownKeys = new Set<string>()
    const methods = Object.fromEntries(Array.from(served.methods, ([name, method]) => [name, serveUnary(method)]))
    const server = new ReplicasServer(
      {
        tunnels: served.tunnels,
        memory,
        methods,
        identity,
        log: this.#log,
        tracer,
        isKnown: (hash) => knownKeys.has(hash),
        onStranger: createStrangersMetric(register),
      },
      { listen: listenOptions(listen), listenGraceMs: listen.listen_grace_period },
    )
    const listening = announced(this.#log, server, {
      name: 'Private API',
      file,
      key: 'private_api.listen.address',
      listen,
    })
    const { membership, links, peers } = this
    const joining = explained(membership, { file, key: 'cluster.listen.address', listen: config.cluster.listen })
    const learnKeys = () => {
      knownKeys.clear()
      for (const { head } of membership.rows()) knownKeys.add(head.publicKeyHash)
    }
    return {
      /** Resolves once this replica knows its peers, so that the servers that need them can start. */
      start: async () => {
        membership.onChange(({ kind }) => {
          if (kind === 'members') learnKeys()
        })
        await listening.start()
        membership.setReplicaPort(this.#place.port ?? server.address.port)
        await joining.start()
        learnKeys()
        await links.start()
      },
      /** Leaves: peers choose this replica last for new calls, and it serves those that still come. */
      leave: async (patience) => {
        membership.setState('leaving')
        await server.leave(patience)
      },
      stop: async (patience) => {
        peers.stop()
        await server.stop(patience)
        await links.stop()
        await membership.stop()
      },
    }
  }

  /** Service that starts last: peers may choose this replica from then on. */
  get serving(): Service {
    return { start: async () => this.membership.setState('serving'), stop: async () => undefined }
  }
}

/** @throws KasError SETTINGS_INVALID: without it this replica would be alone while the secret is being changed */
async function readPreviousSecret(file: string | undefined): Promise<Uint8Array | undefined> {
  if (file === undefined) return undefined
  const { secret } = await readPrivateApiSecret(file, 'cluster.previous_authentication_secret_file')
  return secret
}

function createMembership(
  { log, clock, register }: Pick<PeeringComponents, 'log' | 'clock' | 'register'>,
  options: PeeringOptions & Secrets & { place: ReplicaPlace },
): Membership {
  const { config, env, secret, previousSecret, identity, kasVersion, place } = options
  const { cluster, private_api } = config
  const gossip = tcpOptions(cluster.listen)
  const sources = createSources(
    { log, clock, random: Math.random },
    {
      settings: cluster.discovery,
      surroundings: { inCluster: runsInCluster(env), gossipPort: gossip.port },
    },
  )
  return new Membership(
    { log, clock, metrics: register, sources },
    {
      name: cluster.name ?? hostname(),
      secret,
      previousSecret,
      listen: gossip,
      replica: { port: tcpOptions(private_api.listen).port, ...place },
      publicKeyHash: identity.publicKeyHash,
      kasVersion,
      agentAddress: cluster.agent_address,
    },
  )
}

/** Returns the address for peers. Faults of the environment are only logged. */
function placeOf({ config, ownPrivateApi }: PeeringOptions, log: Logger): ReplicaPlace {
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

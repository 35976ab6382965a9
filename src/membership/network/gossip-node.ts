import { generateKeyPairSync } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { privateKeyFromRaw } from '@libp2p/crypto/keys'
import { type GossipSub, gossipsub, StrictSign } from '@libp2p/gossipsub'
import { type Identify, identify } from '@libp2p/identify'
import type { Libp2p, MultiaddrConnection, PeerId, PrivateKey } from '@libp2p/interface'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { createLibp2p } from 'libp2p'
import { maxMessageBytes } from '../protocol/announcer.ts'
import type { InstanceId } from '../table/row.ts'
import { type ListenAddress, listenMultiaddr } from './gossip-address.ts'
import { noiseOf } from './noise.ts'

export const tableTopic = '/kas/table/1'

/** one frame may carry some messages, each with its signature; a larger one ends the stream */
const maxFrameBytes = 4 * maxMessageBytes
/** what a peer that does not read may leave in our memory; beyond it, its stream is reset */
const maxOutboundBytes = 8 * 1024 * 1024
/** two a pair where both dialled at once, of an installation as large as `bounds.instances` */
const maxConnections = 1024

export type GossipNode = Libp2p<{ identify: Identify; pubsub: GossipSub }>

/** A connection that came, and where its bytes come in. */
export interface Intake extends MultiaddrConnection {
  /** called with what has come, before libp2p has any of it */
  onData(chunk: Uint8Array): void
}

export interface GossipNodeComponents {
  readonly privateKey: PrivateKey
  /** a connection came; whether its handshake may begin */
  admit(connection: Intake): boolean
  /** the connection that came has proven to know the secret; whether the instance may come in */
  admitMember(instance: InstanceId, connection: MultiaddrConnection): boolean
  /** an instance that is not wanted, though we dialled it */
  isBanned(instance: InstanceId): boolean
}

export interface GossipNodeOptions {
  readonly secret: Uint8Array
  readonly previousSecret?: Uint8Array | undefined
  readonly listen: ListenAddress
  /** of a dial, and until a connection that came must have proven itself. ms */
  readonly handshakeMs: number
}

/**
 * libp2p as the gossip wants it, not started: TCP, noise, yamux, gossipsub with signed messages (doc/membership.md).
 */
export async function createGossipNode(
  { privateKey, admit, admitMember, isBanned }: GossipNodeComponents,
  { secret, previousSecret, listen, handshakeMs }: GossipNodeOptions,
): Promise<GossipNode> {
  const address = listenMultiaddr({ ...listen, ...(await addressOf(listen)) })
  return await createLibp2p({
    start: false,
    privateKey,
    nodeInfo: { name: 'kas', version: '1', userAgent: 'kas' },
    addresses: { listen: [address] },
    transports: [tcp({ listenOpts: bothFamilies })],
    connectionEncrypters: noiseOf(secret, previousSecret),
    streamMuxers: [yamux()],
    connectionGater: {
      denyDialMultiaddr: () => false,
      // libp2p's type leaves out where bytes come in; all of its transports have it
      denyInboundConnection: (connection) => !admit(connection as Intake),
      denyInboundEncryptedConnection: (peer, connection) => !admitMember(instanceOf(peer), connection),
      denyOutboundEncryptedConnection: (peer) => isBanned(instanceOf(peer)),
    },
    // our own limits are by address, and know who is listed
    connectionManager: {
      maxConnections,
      inboundConnectionThreshold: Number.MAX_SAFE_INTEGER,
      maxIncomingPendingConnections: Number.MAX_SAFE_INTEGER,
      inboundUpgradeTimeout: handshakeMs,
      dialTimeout: handshakeMs,
      addressDialTimeout: handshakeMs,
    },
    // its pings would end connections of a busy machine; heartbeats show who is silent
    connectionMonitor: { enabled: false },
    services: { identify: identify(), pubsub: gossipsub(pubsubOptions) },
  })
}

/** libp2p takes no name. */
async function addressOf({ host = '' }: ListenAddress): Promise<{ host: string }> {
  return { host: host === '' || isIP(host) !== 0 ? host : (await lookup(host)).address }
}

/** libp2p hands them on to node:net, which would listen on IPv6 alone */
const bothFamilies = { keepAlive: true, ipv6Only: false }

const pubsubOptions: Parameters<typeof gossipsub>[0] = {
  globalSignaturePolicy: StrictSign,
  allowPublishToZeroTopicPeers: true,
  allowedTopics: [tableTopic],
  fallbackToFloodsub: false,
  tagMeshPeers: false,
  maxInboundDataLength: maxFrameBytes,
  maxOutboundBufferSize: maxOutboundBytes,
  // peers are members: neither many on one address nor a slow machine is a fault
  scoreParams: { IPColocationFactorWeight: 0, behaviourPenaltyWeight: 0 },
}

/** A fresh Ed25519 key: an instance. */
export function createPrivateKey(): PrivateKey {
  const { d, x } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  return privateKeyFromRaw(Buffer.concat([Buffer.from(d ?? '', 'base64url'), Buffer.from(x ?? '', 'base64url')]))
}

export function instanceOf(peer: PeerId): InstanceId {
  return peer.toString() as InstanceId
}

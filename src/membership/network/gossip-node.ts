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

/** bound of a frame, which may carry some messages with their signatures; a larger one ends the stream */
const maxFrameBytes = 4 * maxMessageBytes
/** bound of unsent bytes for a peer that does not read; above it its stream is reset */
const maxOutboundBytes = 8 * 1024 * 1024
/** two a pair if both dialled at once, for an installation as large as `bounds.instances` */
const maxConnections = 1024

export type GossipNode = Libp2p<{ identify: Identify; pubsub: GossipSub }>

/** An incoming connection, with the function that receives its bytes. */
export interface Intake extends MultiaddrConnection {
  /** called with received bytes, before libp2p reads them */
  onData(chunk: Uint8Array): void
}

export interface GossipNodeComponents {
  readonly privateKey: PrivateKey
  /** called for an incoming connection; true: its handshake may begin */
  admit(connection: Intake): boolean
  /** called once an incoming connection has proven to have the secret; true: the instance is accepted */
  admitMember(instance: InstanceId, connection: MultiaddrConnection): boolean
  /** true: the instance is refused, even though this one dialled it */
  isBanned(instance: InstanceId): boolean
}

export interface GossipNodeOptions {
  readonly secret: Uint8Array
  readonly previousSecret?: Uint8Array | undefined
  readonly listen: ListenAddress
  /** bound of a dial, and of the handshake of an incoming connection. ms */
  readonly handshakeMs: number
}

/**
 * Creates libp2p as the gossip needs it, not started: TCP, noise, yamux, gossipsub with signed messages
 * (doc/internals/membership.md).
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
      // libp2p's type has no `onData`, but all of its transports have it
      denyInboundConnection: (connection) => !admit(connection as Intake),
      denyInboundEncryptedConnection: (peer, connection) => !admitMember(instanceOf(peer), connection),
      denyOutboundEncryptedConnection: (peer) => isBanned(instanceOf(peer)),
    },
    // this project's own bounds count by address, and know the listed ones
    connectionManager: {
      maxConnections,
      inboundConnectionThreshold: Number.MAX_SAFE_INTEGER,
      maxIncomingPendingConnections: Number.MAX_SAFE_INTEGER,
      inboundUpgradeTimeout: handshakeMs,
      dialTimeout: handshakeMs,
      addressDialTimeout: handshakeMs,
    },
    // its pings would end connections of a busy machine; heartbeats show dead peers
    connectionMonitor: { enabled: false },
    services: { identify: identify(), pubsub: gossipsub(pubsubOptions) },
  })
}

/** Resolves a name, because libp2p accepts none. */
async function addressOf({ host = '' }: ListenAddress): Promise<{ host: string }> {
  return { host: host === '' || isIP(host) !== 0 ? host : (await lookup(host)).address }
}

/** options for node:net, which would otherwise listen on IPv6 only */
const bothFamilies = { keepAlive: true, ipv6Only: false }

const pubsubOptions: Parameters<typeof gossipsub>[0] = {
  globalSignaturePolicy: StrictSign,
  allowPublishToZeroTopicPeers: true,
  allowedTopics: [tableTopic],
  fallbackToFloodsub: false,
  tagMeshPeers: false,
  maxInboundDataLength: maxFrameBytes,
  maxOutboundBufferSize: maxOutboundBytes,
  // peers are members: neither several on one address nor a slow machine is a fault
  scoreParams: { IPColocationFactorWeight: 0, behaviourPenaltyWeight: 0 },
}

/** Creates a new Ed25519 key, which identifies an instance. */
export function createPrivateKey(): PrivateKey {
  const { d, x } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  return privateKeyFromRaw(Buffer.concat([Buffer.from(d ?? '', 'base64url'), Buffer.from(x ?? '', 'base64url')]))
}

export function instanceOf(peer: PeerId): InstanceId {
  return peer.toString() as InstanceId
}

import { type GossipSub, gossipsub, StrictSign } from '@libp2p/gossipsub'
import { identify } from '@libp2p/identify'
import type { Stream } from '@libp2p/interface'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import type { Test } from 'tap'
import type { InstanceId } from '../../src/membership/membership.ts'
import { tableTopic } from '../../src/membership/network/gossip-node.ts'
import { noiseOf } from '../../src/membership/network/noise.ts'
import { rowProtocol } from '../../src/membership/network/row-stream.ts'
import { eventually } from '../support/eventually.ts'
import { secret } from '../support/membership.ts'

export interface RogueOptions {
  /** default: those of a member */
  readonly encrypters?: ReturnType<typeof noiseOf>
  /** answers requests for its row; default: no answer */
  readonly serveRow?: (stream: Stream) => void | Promise<void>
}

/** Starts a libp2p peer that sends what a test needs: a faulty member, one of another version, or a stranger. */
export async function startRogue(t: Test, options: RogueOptions = {}) {
  const node = await createLibp2p({
    addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
    transports: [tcp()],
    connectionEncrypters: options.encrypters ?? noiseOf(secret),
    streamMuxers: [yamux()],
    connectionGater: { denyDialMultiaddr: () => false },
    connectionMonitor: { enabled: false },
    services: {
      identify: identify(),
      pubsub: gossipsub({ globalSignaturePolicy: StrictSign, allowPublishToZeroTopicPeers: true }),
    },
  })
  t.teardown(() => node.stop())
  const pubsub: GossipSub = node.services.pubsub
  pubsub.subscribe(tableTopic)
  const { serveRow } = options
  if (serveRow) await node.handle(rowProtocol, (stream) => serveRow(stream))
  const dial = async (address: string) => {
    const [host, port] = address.split(':')
    await node.dial(multiaddr(`/ip4/${host}/tcp/${port}`))
  }
  return {
    instance: node.peerId.toString() as InstanceId,
    node,
    dial,
    /** Resolves once gossip between the two can flow. */
    async join(address: string): Promise<void> {
      const listening = new Promise<void>((resolve) => {
        pubsub.addEventListener('subscription-change', ({ detail }) => detail.subscriptions.length > 0 && resolve())
      })
      await dial(address)
      await listening
      // a message that is published before its own stream is open is lost silently
      await eventually(() => {
        const streams = node.getConnections().flatMap((connection) => connection.streams)
        const open = streams.some(
          ({ direction, protocol }) => direction === 'outbound' && protocol.startsWith('/meshsub'),
        )
        if (!open) throw new Error('no stream for gossip')
      })
    },
    publish: (news: Uint8Array) => pubsub.publish(tableTopic, news),
  }
}

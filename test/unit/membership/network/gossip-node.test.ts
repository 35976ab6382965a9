import t from 'tap'
import { createGossipNode, createPrivateKey } from '../../../../src/membership/network/gossip-node.ts'

t.test('gossip listens on a name as on the address that it leads to', async (t) => {
  const node = await createGossipNode(
    { privateKey: createPrivateKey(), admit: () => true, admitMember: () => true, isBanned: () => false },
    { secret: new Uint8Array(32), listen: { host: 'localhost', port: 0 }, handshakeMs: 1000 },
  )
  t.teardown(() => node.stop())
  await node.start()
  const [address] = node.getMultiaddrs()
  t.match(String(address), /^\/(ip4\/127\.0\.0\.1|ip6\/::1)\/tcp\/[1-9]/)
})

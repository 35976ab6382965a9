import { multiaddr } from '@multiformats/multiaddr'
import t from 'tap'
import { hostOf, toMultiaddr } from '../../../../src/membership/network/gossip-address.ts'

t.test('the host of a connection, as discovery writes it', async (t) => {
  const forms = [
    ['/ip4/10.44.0.10/tcp/8156', '10.44.0.10'],
    ['/ip6/::ffff:10.44.0.10/tcp/40000', '10.44.0.10'],
    ['/ip6/fd44::10/tcp/8156/p2p/12D3KooWGC6TvWhfapngX6wvJHMYvKpDMXPb3ZnCZ6dMoaMtimQ5', 'fd44::10'],
    ['/dns/kas-1.internal/tcp/8156', 'kas-1.internal'],
  ] as const
  for (const [text, host] of forms) t.equal(hostOf(multiaddr(text)), host)
})

t.test('what is dialled', async (t) => {
  t.equal(toMultiaddr('10.44.0.10:8156')?.toString(), '/ip4/10.44.0.10/tcp/8156')
  t.equal(toMultiaddr('[fd44::10]:8156')?.toString(), '/ip6/fd44::10/tcp/8156')
  t.equal(toMultiaddr('kas-1.internal:8156')?.toString(), '/dns/kas-1.internal/tcp/8156')
  t.equal(toMultiaddr('nowhere'), undefined)
})

import t from 'tap'
import { Networks, parseNetwork } from '../../../src/lib/networks.ts'

t.test('addresses and networks in CIDR notation', async (t) => {
  t.strictSame(parseNetwork('10.0.0.7'), { address: '10.0.0.7', prefix: 32 })
  t.strictSame(parseNetwork('10.0.0.0/8'), { address: '10.0.0.0', prefix: 8 })
  t.strictSame(parseNetwork('2001:db8::/64'), { address: '2001:db8::', prefix: 64 })
  t.strictSame(parseNetwork('::1'), { address: '::1', prefix: 128 })
  const wrong = ['', 'localhost', '10.0.0', '10.0.0.0/33', '10.0.0.0/', '/8', '10.0.0.0/8/8', '::/129', '10.0.0.0/-1']
  for (const text of [...wrong, 'fe80::1%eth0', '::ffff:10.0.0.0/104', '10.0.0.1 '])
    t.equal(parseNetwork(text), undefined, text)
  for (const everybody of ['0.0.0.0/0', '::/0', '10.0.0.1/0']) t.equal(parseNetwork(everybody), undefined, everybody)
})

t.test('which addresses are in them', async (t) => {
  const networks = new Networks(['127.0.0.1', '10.1.0.9/16', '2001:db8::1/64'])
  const inside = ['127.0.0.1', '10.1.0.1', '10.1.255.255', '2001:db8::ffff']
  const outside = ['127.0.0.2', '10.2.0.1', '2001:db8:0:1::1', '::1', '', 'unknown', '10.1.0.1:80', '10.1']
  for (const address of inside) t.ok(networks.has(address), address)
  for (const address of outside) t.notOk(networks.has(address), address)
  t.notOk(new Networks([]).has('127.0.0.1'))
  t.throws(() => new Networks(['0.0.0.0/0']))
})

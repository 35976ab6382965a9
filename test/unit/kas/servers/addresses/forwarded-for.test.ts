import t from 'tap'
import { ClientAddresses } from '../../../../../src/kas/servers/addresses/client-addresses.ts'
import { forwardedFor } from '../../../../../src/kas/servers/addresses/forwarded-for.ts'

const front = '10.0.0.5'
const of = (...values: string[]) => forwardedFor(values, front, (address) => address.startsWith('10.'))

t.test('from the right, the first who is not trusted', async (t) => {
  t.equal(of('192.0.2.7'), '192.0.2.7')
  t.equal(of('198.51.100.1, 192.0.2.7'), '192.0.2.7', 'what he wrote before it counts for nothing')
  t.equal(of('198.51.100.1, 192.0.2.7,10.0.0.6 , 10.0.0.7'), '192.0.2.7', 'fronts behind one another')
  t.equal(of('198.51.100.1', '192.0.2.7'), '192.0.2.7', 'a line each')
  t.equal(of('198.51.100.1, 192.0.2.7', '10.0.0.7'), '192.0.2.7', 'over lines')
  t.equal(of('10.0.0.6, 10.0.0.7'), '10.0.0.6', 'a front of its own accord')
  t.equal(of(), front, 'no header')
})

t.test('forms of an address', async (t) => {
  for (const ipv6 of ['2001:db8::7', '2001:DB8:0::7', '[2001:db8::7]', '[2001:db8::7]:51000', '\t2001:db8::7 '])
    t.equal(of(ipv6), '2001:db8::7', ipv6)
  for (const ipv4 of ['192.0.2.7', '192.0.2.7:51000', '::ffff:192.0.2.7', '[::ffff:c000:207]:1'])
    t.equal(of(ipv4), '192.0.2.7', ipv4)
  for (const zone of ['fe80::7%eth0', '[fe80::7%eth0]:51000', '[fe80::7%25]'])
    t.equal(of(zone), 'fe80::7', `${zone}: without its zone`)
})

t.test('what is no address: who has written it', async (t) => {
  const garbage = [
    '',
    ' ',
    ',',
    'unknown',
    '_hidden',
    '300.0.0.1',
    '192.0.2',
    '192.0.2.7:',
    '[192.0.2.7',
    '[]:1',
    '::1]',
  ]
  const odd = [
    '192.0.2.7 192.0.2.8',
    '"192.0.2.7"',
    'for=192.0.2.7',
    `fe80::7%${'z'.repeat(90)}`,
    'fe80::7%<b>',
    '0x7f.1',
    '٣.٣.٣.٣',
  ]
  for (const entry of [...garbage, ...odd]) {
    t.equal(of(entry), front, JSON.stringify(entry))
    t.equal(of(`192.0.2.7, ${entry}, 10.0.0.6`), '10.0.0.6', `${JSON.stringify(entry)}, written by another front`)
  }
})

t.test('10,000 entries: those on the right are read', async (t) => {
  const many = (entry: string) => Array<string>(10_000).fill(entry).join(',')
  t.equal(of(`${many('::1')}, 192.0.2.7`), '192.0.2.7')
  t.equal(of(many('192.0.2.7')), '192.0.2.7')
  t.equal(of(`192.0.2.7, ${many('10.0.0.6')}`), '10.0.0.6', 'so many fronts there are not')
  t.equal(of(','.repeat(60_000)), front)
  t.equal(of(...Array<string>(500).fill(many('10.0.0.6'))), '10.0.0.6')
})

t.test('of who is not trusted nothing is believed', async (t) => {
  const addresses = new ClientAddresses({ trustedProxies: ['10.0.0.5', '::1'], proxyProtocol: false })
  const believed = (remote: string | undefined) => addresses.ofRequest(addresses.of(remote), ['192.0.2.7'])
  t.equal(believed('10.0.0.5:1'), '192.0.2.7')
  t.equal(believed('::ffff:10.0.0.5:1'), '192.0.2.7')
  t.equal(believed('::1:51000'), '192.0.2.7')
  t.equal(believed('10.0.0.6:1'), '10.0.0.6')
  t.equal(believed(undefined), undefined, 'of a Unix socket')
  const off = new ClientAddresses()
  t.notOk(off.isOn)
  t.equal(off.ofRequest(off.of('10.0.0.5:1'), ['192.0.2.7']), '10.0.0.5')
})

t.test('a connection with a PROXY header is its client\u2019s, and so is what he sends', async (t) => {
  const addresses = new ClientAddresses({ trustedProxies: ['10.0.0.0/24'], proxyProtocol: true })
  const believed = (said: string | undefined) => {
    addresses.learn('10.0.0.5:1', said)
    return addresses.ofRequest(addresses.of('10.0.0.5:1'), ['198.51.100.1'])
  }
  t.equal(believed('192.0.2.7'), '192.0.2.7')
  t.equal(believed('10.0.0.6'), '198.51.100.1', 'another front, by way of this one')
  t.equal(believed(undefined), '10.0.0.5', 'LOCAL, UNKNOWN')
  addresses.forget('10.0.0.5:1')
  t.strictSame(addresses.of('10.0.0.5:1'), { address: '10.0.0.5', isFront: false })
})

import t from 'tap'
import { maxProxyHeaderBytes, readProxyHeader } from '../../../../../src/kas/servers/addresses/proxy-header.ts'
import { proxyHeaderV2 } from '../../../../support/proxy-headers.ts'

const text = (line: string) => Buffer.from(line, 'latin1')
const whole = (bytes: number, address?: string) => ({ kind: 'whole', bytes, address })
const kindOf = (head: Buffer) => readProxyHeader(head).kind

t.test('version 1', async (t) => {
  const lines: Record<string, string | undefined> = {
    'PROXY TCP4 192.0.2.7 127.0.0.1 51000 443': '192.0.2.7',
    'PROXY TCP6 2001:DB8:0:0::7 ::1 51000 443': '2001:db8::7',
    'PROXY TCP6 ::ffff:192.0.2.7 ::1 0 65535': '192.0.2.7',
    'PROXY UNKNOWN': undefined,
    'PROXY UNKNOWN 2001:db8::7 ::1 51000 443': undefined,
  }
  for (const [line, address] of Object.entries(lines)) {
    const head = text(`${line}\r\nGET / HTTP/1.1\r\n`)
    t.strictSame(readProxyHeader(head), whole(line.length + 2, address), line)
    for (let i = 0; i < line.length + 2; i++) t.equal(kindOf(head.subarray(0, i)), 'partial', `${line}, cut at ${i}`)
  }
})

t.test('version 1, malformed', async (t) => {
  const lines = [
    'PROXY\r\n',
    'PROXY TCP4\r\n',
    'PROXY TCP4 192.0.2.7 127.0.0.1 51000\r\n',
    'PROXY TCP4 192.0.2.7 127.0.0.1 51000 65536\r\n',
    'PROXY TCP4 192.0.2.7  127.0.0.1 51000 443\r\n',
    'PROXY TCP4 2001:db8::7 ::1 51000 443\r\n',
    'PROXY TCP6 192.0.2.7 127.0.0.1 51000 443\r\n',
    'PROXY TCP6 fe80::1%eth0 ::1 51000 443\r\n',
    'PROXY TCP4 192.0.2.7 127.0.0.1 51000 443 \r\n',
    'PROXY TCP4 192.0.2.7 127.0.0.1 51000 443\nGET\r\n',
    'PROXY UDP4 192.0.2.7 127.0.0.1 51000 443\r\n',
    'PROXY UNKNOWNS\r\n',
    'proxy TCP4 192.0.2.7 127.0.0.1 51000 443\r\n',
    `PROXY UNKNOWN ${'x'.repeat(93)}\r\n`,
    'GET / HTTP/1.1\r\n',
    '\x16\x03\x01',
  ]
  for (const line of lines) t.equal(kindOf(text(line)), 'invalid', JSON.stringify(line))
  t.equal(kindOf(text(`PROXY UNKNOWN ${'x'.repeat(91)}\r\n`)), 'whole', 'of 107 bytes')
  t.equal(kindOf(text(`PROXY ${'x'.repeat(101)}`)), 'invalid', 'without an end')
})

t.test('version 2', async (t) => {
  const more = Buffer.from('\x16\x03\x01')
  const cases: [string, Buffer, string?][] = [
    ['IPv4', proxyHeaderV2({ from: '192.0.2.7' }), '192.0.2.7'],
    ['IPv6', proxyHeaderV2({ from: '2001:db8::7' }), '2001:db8::7'],
    ['IPv4 in IPv6', proxyHeaderV2({ from: '::ffff:192.0.2.7' }), '192.0.2.7'],
    ['with more behind its addresses', proxyHeaderV2({ from: '192.0.2.7', more: Buffer.alloc(300, 4) }), '192.0.2.7'],
    ['LOCAL', proxyHeaderV2({ from: '192.0.2.7', command: 0 })],
    ['LOCAL, without addresses', proxyHeaderV2({ command: 0, family: 0 })],
    ['of no family', proxyHeaderV2({ family: 0 })],
    ['a Unix socket', proxyHeaderV2({ family: 0x31, more: Buffer.alloc(216) })],
    ['a datagram', proxyHeaderV2({ from: '192.0.2.7', family: 0x12 })],
  ]
  for (const [name, header, address] of cases) {
    t.strictSame(readProxyHeader(Buffer.concat([header, more])), whole(header.length, address), name)
    for (let i = 0; i < header.length; i++) t.equal(kindOf(header.subarray(0, i)), 'partial', `${name}, cut at ${i}`)
  }
})

t.test('version 2, malformed', async (t) => {
  const from = '192.0.2.7'
  const cut = proxyHeaderV2({ from })
  cut.writeUInt16BE(11, 14)
  const cut6 = proxyHeaderV2({ from: '2001:db8::7' })
  cut6.writeUInt16BE(35, 14)
  const cases: Record<string, Buffer> = {
    'another version': proxyHeaderV2({ from, version: 1 }),
    'another command': proxyHeaderV2({ from, command: 2 }),
    'another family': proxyHeaderV2({ from, family: 0x41 }),
    'another transport': proxyHeaderV2({ from, family: 0x13 }),
    'cut addresses': cut,
    'cut addresses of IPv6': cut6,
    'a signature that ends otherwise': Buffer.from('\r\n\r\n\0\r\nQUIT\r', 'latin1'),
  }
  for (const [name, header] of Object.entries(cases)) t.equal(kindOf(header), 'invalid', name)
  const long = proxyHeaderV2({ from, more: Buffer.alloc(maxProxyHeaderBytes) })
  t.equal(kindOf(long.subarray(0, 16)), 'invalid', 'its length is refused before it comes')
})

import t from 'tap'
import { formatHostPort, isHostName, parseHostPort } from '../../../src/lib/host-port.ts'

t.test('what is a host and a port', async (t) => {
  const taken: [text: string, host: string, port: number, written?: string][] = [
    ['10.0.0.7:8156', '10.0.0.7', 8156],
    ['[fd00::1]:8156', 'fd00::1', 8156],
    ['[FD00:0:0::1]:1', 'fd00::1', 1, '[fd00::1]:1'],
    ['kas-1:8156', 'kas-1', 8156],
    ['kas_1.Example.com.:65535', 'kas_1.Example.com.', 65_535],
  ]
  for (const [text, host, port, written] of taken) {
    t.strictSame(parseHostPort(text), { host, port }, text)
    t.equal(formatHostPort({ host, port }), written ?? text)
  }
})

t.test('what is none', async (t) => {
  const refused = ['', 'kas-1', ':8156', 'kas-1:', 'kas-1:0', 'kas-1:65536', 'kas-1:x', 'kas-1: 8156', ' kas-1:8156']
  const addresses = ['fd00::1:8156', '[kas-1]:8156', '[fd00::1]', '[fe80::1%eth0]:8156', '[10.0.0.7]:8156', '10.0.0:1']
  const names = ['256.0.0.1:1', '-a:1', 'a-:1', 'a..b:1', '.a:1', 'a/b:1', 'a@b:1', `${'a'.repeat(64)}:1`]
  for (const text of [...refused, ...addresses, ...names]) t.equal(parseHostPort(text), undefined, text)
  t.notOk(isHostName(`${'a.'.repeat(126)}ab`), 'longer than a name may be')
})

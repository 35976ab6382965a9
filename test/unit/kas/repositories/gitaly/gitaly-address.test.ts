import t from 'tap'
import { parseGitalyAddress } from '../../../../../src/kas/repositories/gitaly/gitaly-address.ts'

// wire: gitaly.address.unix, gitaly.address.tcp, gitaly.address.tls, gitaly.address.dns
t.test('addresses as GitLab writes them', async (t) => {
  const unix = { kind: 'unix', path: '/var/opt/gitlab/gitaly/gitaly.socket' }
  for (const [text, expected] of [
    ['unix:/var/opt/gitlab/gitaly/gitaly.socket', unix],
    ['unix:///var/opt/gitlab/gitaly/gitaly.socket', unix],
    ['unix:gitaly.socket', { kind: 'unix', path: 'gitaly.socket' }],
    ['tcp://10.0.0.7:8075', { kind: 'tcp', host: '10.0.0.7', port: 8075 }],
    ['tcp://[fd00::1]:8075', { kind: 'tcp', host: 'fd00::1', port: 8075 }],
    ['tls://praefect.internal:3305', { kind: 'tls', host: 'praefect.internal', port: 3305 }],
    ['dns:gitaly.internal:8075', { kind: 'dns', host: 'gitaly.internal', port: 8075 }],
    ['dns:gitaly.internal', { kind: 'dns', host: 'gitaly.internal', port: 443 }],
    ['dns:///gitaly.internal:8075', { kind: 'dns', host: 'gitaly.internal', port: 8075 }],
    ['dns://10.0.0.2/gitaly:8075', { kind: 'dns', host: 'gitaly', port: 8075, server: '10.0.0.2:53' }],
    ['dns://10.0.0.2:1053/gitaly:8075', { kind: 'dns', host: 'gitaly', port: 8075, server: '10.0.0.2:1053' }],
  ] as const) {
    t.strictSame(parseGitalyAddress(text), expected, text)
  }
})

t.test('anything else is refused', async (t) => {
  const bad = ['', 'unix:', 'gitaly:8075', 'http://gitaly:8075', 'tcp://gitaly', 'tcp://user@gitaly:1', 'tcp://:8075']
  for (const text of [...bad, 'tls://gitaly:0', 'tcp://gitaly:8075/path', 'dns:', 'dns://ns.internal/gitaly:1']) {
    t.throws(() => parseGitalyAddress(text), { code: 'REPOSITORY_FAILED' }, text)
  }
})

import t from 'tap'
import { createOriginCheck } from '../../../../../../src/kas/servers/kubernetes/response/cors.ts'

// wire: 8154.origin.port
t.test('without a port any port will do', async (t) => {
  const allows = createOriginCheck('https://gitlab.example.com/path')
  t.ok(allows('https://gitlab.example.com'))
  t.ok(allows('https://gitlab.example.com:8443'))
  t.ok(allows('https://GitLab.example.com'))
  for (const origin of [
    'http://gitlab.example.com',
    'https://gitlab.example.com.evil.com',
    'https://evil.com',
    'https://gitlab.example.com@evil.com',
    'https://gitlab.example.com/',
    'https://gitlab.example.com, https://evil.com',
    'https://evil.com, https://gitlab.example.com',
    'null',
    '',
    'https://',
  ]) {
    t.notOk(allows(origin), origin)
  }
})

// wire: 8154.origin.port
t.test('a port that is named must be it', async (t) => {
  const allows = createOriginCheck('http://127.0.0.1:9300')
  t.ok(allows('http://127.0.0.1:9300'))
  t.notOk(allows('http://127.0.0.1'))
  t.notOk(allows('http://127.0.0.1:9301'))
  const standard = createOriginCheck('https://gitlab.example.com:443')
  t.ok(standard('https://gitlab.example.com'))
  t.notOk(standard('https://gitlab.example.com:8443'))
})

// wire: 8154.origin.none
t.test('without external_url no page may call', async (t) => {
  t.notOk(createOriginCheck(undefined)('https://gitlab.example.com'))
})

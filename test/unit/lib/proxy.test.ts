import t from 'tap'
import { proxyFromEnvironment, proxyUrl } from '../../../src/lib/proxy.ts'

const target = { host: 'kas.example.com', port: 443 }
const proxy = 'http://proxy:3128'
const host = (env: NodeJS.ProcessEnv, to: { host: string; port: number } = target) =>
  proxyFromEnvironment(env, 'https', to)?.host

t.equal(host({}), undefined)
t.equal(host({ HTTPS_PROXY: proxy }), 'proxy:3128')
t.equal(host({ https_proxy: proxy }), 'proxy:3128')
t.equal(host({ HTTPS_PROXY: 'proxy:3128' }), 'proxy:3128', 'http is understood')
t.equal(host({ HTTP_PROXY: proxy }), undefined)
t.equal(proxyFromEnvironment({ HTTP_PROXY: proxy }, 'http', target)?.host, 'proxy:3128')
t.equal(host({ HTTPS_PROXY: proxy }, { host: 'localhost', port: 1 }), undefined)
t.equal(host({ HTTPS_PROXY: proxy }, { host: '127.1.2.3', port: 1 }), undefined)
t.equal(host({ HTTPS_PROXY: proxy }, { host: '::1', port: 1 }), undefined)
t.throws(() => host({ HTTPS_PROXY: 'socks5://proxy' }), /http or https/)
t.throws(() => host({ HTTPS_PROXY: 'http://user:secret@proxy:99999' }), {
  message: /^HTTPS_PROXY is no URL of a proxy: %, #, \/ and @ of a password/,
  input: undefined,
})

t.test('a password that is written wrongly is no part of a URL, and of no message', async (t) => {
  for (const wrong of [
    'http://ada:geheim#w@proxy:3128',
    'http://ada:12#geheim@proxy:3128',
    'http://ada:12?geheim@proxy:3128',
    'http://ada:123/geheim@proxy:3128',
    'ada:123/geheim@proxy:3128',
    'ada:geheim://w@proxy:3128',
    'http://ada:geheim%@proxy:3128',
    'http://ada%2:0geheim@proxy:3128',
    'http://ada:geheim%C3@proxy:3128',
  ]) {
    t.equal(proxyUrl(wrong), undefined, wrong)
    t.throws(() => host({ HTTPS_PROXY: wrong }), { message: /^HTTPS_PROXY is no URL of a proxy: .*%40$/ }, wrong)
  }
  t.match(proxyUrl('http://ada:p%25%23%2F%40@proxy:3128/'), { host: 'proxy:3128', password: 'p%25%23%2F%40' })
})

t.test('NO_PROXY', (t) => {
  const direct = (entry: string, to = target) =>
    host({ HTTPS_PROXY: proxy, NO_PROXY: `other.org, ${entry}` }, to) === undefined
  t.ok(direct('*'))
  t.ok(direct('kas.example.com'))
  t.ok(direct('example.com'), 'sub-domains of a name')
  t.ok(direct('.example.com'))
  t.ok(direct('*.example.com'))
  t.ok(direct('KAS.example.com:443'))
  t.notOk(direct('kas.example.com:8443'))
  t.notOk(direct('.kas.example.com'), 'a leading dot means sub-domains alone')
  t.notOk(direct('s.example.com'))
  t.ok(direct('10.0.0.0/8', { host: '10.1.2.3', port: 443 }))
  t.notOk(direct('10.0.0.0/8', { host: '11.1.2.3', port: 443 }))
  t.notOk(direct('10.0.0.0/8'))
  t.ok(direct('10.1.2.3', { host: '10.1.2.3', port: 443 }))
  t.ok(direct('fd00::/8', { host: 'fd00::5', port: 443 }))
  t.end()
})

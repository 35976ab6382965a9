import t from 'tap'
import { readWebhookAddress } from '../../../../../src/agentk/modules/flux/webhook-call.ts'

const proxy = '/api/v1/namespaces/flux-system/services/http:webhook-receiver:80/proxy'

t.test('flux.webhook_receiver_url', async (t) => {
  const server = (url: string) => ({ kind: 'server', url })
  const flux = 'http://webhook-receiver.flux-system.svc.cluster.local'
  t.strictSame(readWebhookAddress(flux), server(flux))
  t.strictSame(readWebhookAddress('https://flux.example.com:8443/base/'), server('https://flux.example.com:8443/base'))
  t.strictSame(readWebhookAddress(proxy), { kind: 'apiServer', path: proxy })
  t.strictSame(readWebhookAddress(`${proxy}/`), { kind: 'apiServer', path: proxy })
  const bad = ['', 'x', 'webhook-receiver', '//x', 'ftp://x', 'http://', 'http://u:p@x', 'http://x?y', 'http://x#y']
  const badPaths = ['/api/v1/secrets', `${proxy}/../../..`, `${proxy}?x`, '/api/v1/namespaces/a/services/b/proxyx']
  t.strictSame(readWebhookAddress(`${proxy}/a.b/c-d_e/`), { kind: 'apiServer', path: `${proxy}/a.b/c-d_e` })
  const ways = [
    '/..',
    '/../x',
    '/x/..',
    '/.',
    '/%2e%2e/x',
    '/%2E%2e',
    '/..%2fx',
    '\\..\\x',
    '/..\\x',
    '/x#y',
    '/x;y',
    '/x y',
    '/x\n',
  ]
  for (const way of ways) badPaths.push(proxy + way)
  for (const name of ['a%2Fb', 'a%2fproxy', 'a?b', 'a#b', 'a\\b', '..', '.', 'A', 'a b', '']) {
    badPaths.push(`/api/v1/namespaces/${name}/services/b/proxy`, `/api/v1/namespaces/a/services/${name}/proxy`)
  }
  for (const text of [...bad, ...badPaths]) t.equal(readWebhookAddress(text), undefined, text)
})

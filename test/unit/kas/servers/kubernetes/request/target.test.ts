import t from 'tap'
import { parseTarget } from '../../../../../../src/kas/servers/kubernetes/request/target.ts'

const parse = (target: string, prefix = '/') => parseTarget(target, prefix)
const nothing = { query: [], agentIds: [], csrfTokens: [], wantsToken: false }

// wire: request.path, http.path
t.test('the path, decoded once', async (t) => {
  t.same(parse('/api/v1/pods'), { path: '/api/v1/pods', ...nothing })
  t.same(parse('/api?'), { path: '/api', ...nothing })
  t.equal(parse('/a%20b%c3%a9').path, '/a bé')
  t.equal(parse('/a%2Fb').path, '/a/b', 'as upstream')
  t.equal(parse('/a%252Fb').path, '/a%2Fb', 'not twice')
  t.equal(parse('/a+b').path, '/a+b', 'a plus is a plus')
  t.equal(parse('//a//b/').path, '//a//b/', 'slashes stay')
  t.equal(parse('/a...b/..c/d..').path, '/a...b/..c/d..', 'dots in names')
})

// wire: request.query, http.query
t.test('the query, decoded, sorted by name, values in order', async (t) => {
  t.same(parse('/?b=2&a=1&b=1&c&d=&&e=x=y').query, [
    ['a', ['1']],
    ['b', ['2', '1']],
    ['c', ['']],
    ['d', ['']],
    ['e', ['x=y']],
  ])
  t.same(parse('/?labelSelector=app+in+%28a%2Cb%29&command=a;b').query, [
    ['command', ['a;b']],
    ['labelSelector', ['app in (a,b)']],
  ])
  t.same(parse('/?a=1?b').query, [['a', ['1?b']]])
})

t.test('a query of too many parameters is refused before any is read', async (t) => {
  const many = (count: number) => `/?${Array.from({ length: count }, (_, i) => `command=${i}`).join('&')}`
  t.equal(parse(many(1000)).query[0]?.[1].length, 1000)
  const refusal = { code: 'BAD_REQUEST', message: 'Bad request: the query has more than 1000 parameters' }
  t.throws(() => parse(many(1001)), refusal)
  t.throws(() => parse(`${many(1001)}&%ff`), refusal)
  t.throws(() => parse(`/?${'&'.repeat(60_000)}`), refusal)
})

// wire: request.query
t.test('what is meant for kas is taken out', async (t) => {
  t.same(parse('/?watch=1&gitlab-agent-id=42&gitlab-csrf-token=x&gitlab-csrf-token=y'), {
    path: '/',
    query: [['watch', ['1']]],
    agentIds: ['42'],
    csrfTokens: ['x', 'y'],
    wantsToken: false,
  })
  t.match(parse('/watch?kas-websocket-token-request=true'), { query: [], wantsToken: true })
  t.match(parse('/watch?kas-websocket-token-request=no'), { query: [], wantsToken: false })
})

// wire: 8154.prefix, 8154.prefix.slash
t.test('the prefix', async (t) => {
  t.equal(parse('/k8s-proxy/api', '/k8s-proxy/').path, '/api')
  t.equal(parse('/k8s-proxy/', '/k8s-proxy/').path, '/')
  t.equal(parse('/k8s-proxy', '/k8s-proxy/').path, '/')
  t.equal(parse('/k8s-proxy?a=1', '/k8s-proxy/').path, '/')
  t.equal(parse('/k8s-proxy//api', '/k8s-proxy/').path, '//api')
  t.equal(parse('/k8s%2Dproxy/api', '/k8s-proxy/').path, '/api')
  for (const target of ['/', '/api', '/k8s-proxyx/api', '/x/k8s-proxy/api', '/K8s-proxy/api']) {
    t.throws(() => parse(target, '/k8s-proxy/'), { code: 'PREFIX_MISSING' }, target)
  }
})

t.test('a whole URL', async (t) => {
  t.equal(parse('http://kas.example.com:8154/api/v1').path, '/api/v1')
  t.equal(parse('HTTPS://kas.example.com?a=1').path, '/')
  t.same(parse('https://kas.example.com?a=1').query, [['a', ['1']]])
})

t.test('what cannot be read is refused', async (t) => {
  const targets = ['*', '', 'api', 'ftp://a/b', '/a#b', '/%zz', '/%', '/%ff', '/?a=%zz', '/?%=1', '/?a=%e9']
  for (const target of targets) t.throws(() => parse(target), { code: 'BAD_REQUEST' }, JSON.stringify(target))
})

t.test('segments that could leave the path of the cluster are refused, however they are written', async (t) => {
  for (const target of [
    '/..',
    '/.',
    '/a/../b',
    '/a/./b',
    '/a/..',
    '/%2e%2e/a',
    '/a%2f..%2fb',
    '/a\\..\\b',
    '/a/..\\b',
  ]) {
    t.throws(() => parse(target), { code: 'BAD_REQUEST' }, target)
  }
  t.throws(() => parse('/k8s-proxy/../secret', '/k8s-proxy/'), { code: 'BAD_REQUEST' })
})

import t from 'tap'
import { maxStrangerParameters, parseTarget, wholeTarget } from '../../../../src/kubernetes/request/target.ts'

const parse = (target: string, prefix = '/') => parseTarget(target, prefix)
const nothing = { query: [], rawQuery: '', agentIds: [], csrfTokens: [], wantsToken: false }

// wire: request.path, http.path
t.test('the path, decoded once', async (t) => {
  t.same(parse('/api/v1/pods'), { path: '/api/v1/pods', rawPath: '/api/v1/pods', ...nothing })
  t.same(parse('/api?'), { path: '/api', rawPath: '/api', ...nothing })
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

const many = (count: number, word = 'command=x') => Array.from({ length: count }, () => word).join('&')

// wire: limit.head
t.test('a long query is built once its caller is known: before, only what kas asks for', async (t) => {
  t.equal(parse(`/?${many(maxStrangerParameters)}`).long, undefined)
  const own = 'gitlab-agent-id=42&%67itlab-csrf-token=a%2Bb&kas-websocket-token-request=1'
  const long = parse(`/?${many(3000)}&watch=1&${own}&a=%20&${many(3000)}&labelSelector=b%3Dc&&`)
  t.match(long, { agentIds: ['42'], csrfTokens: ['a+b'], wantsToken: true, long: { parameters: 6008 } })
  t.strictSame(long.query, [
    ['labelSelector', ['b=c']],
    ['watch', ['1']],
  ])
  const whole = wholeTarget(long)
  t.match(
    whole.query.map(([name, values]) => [name, values.length]),
    [
      ['a', 1],
      ['command', 6000],
      ['labelSelector', 1],
      ['watch', 1],
    ],
  )
  t.equal(whole.rawQuery, `${many(3000)}&watch=1&a=%20&${many(3000)}&labelSelector=b%3Dc&&`, 'all else as it came')
  t.equal(whole.long, undefined)
  const plain = `${many(3000)}&a=%20&b`
  t.equal(wholeTarget(parse(`/?${plain}`)).rawQuery, plain)
  t.throws(() => wholeTarget(parse(`/?${many(3000)}&command=%zz`)), { code: 'BAD_REQUEST' })
})

t.test('attack: long queries', async (t) => {
  const refused = { code: 'BAD_REQUEST' }
  t.throws(() => parse(`/?${many(1001, '%77atch=1')}`), refused, 'names that are hidden')
  t.throws(() => parse(`/?${many(1001, 'watch=1')}`), refused, 'one name again and again')
  t.throws(() => parse(`/?${many(1001)}&%zz=1`), refused)
  for (const word of ['', 'a', 'a=', 'abc', 'w'.repeat(90), `${'w'.repeat(90)}=%zz`]) {
    const raw = many(Math.floor(2 ** 20 / (word.length + 1)), word)
    t.strictSame(parse(`/?${raw}`).query, [], 'in ms: by the square of its parameters it would take minutes')
  }
})

t.test('what is cut out of a query, however it is written, and each other byte as it came', async (t) => {
  for (const [query, rest] of [
    ['wsdl', 'wsdl'],
    ['b=2&a=1&a=3;b=4&c=x%20y+z&&d==', 'b=2&a=1&a=3;b=4&c=x%20y+z&&d=='],
    ['b=2&gitlab-agent-id=42&a=1', 'b=2&a=1'],
    ['%67itlab-agent-id=42&a=%41', 'a=%41'],
    ['a=gitlab-agent-id&gitlab-csrf-token', 'a=gitlab-agent-id'],
    ['gitlab-agent-id=1&gitlab-agent-id=2', ''],
    ['kas-websocket-token-request=true&a', 'a'],
    ['Gitlab-agent-id=1', 'Gitlab-agent-id=1'],
  ] as const)
    t.equal(parse(`/?${query}`).rawQuery, rest, query)
})

// wire: request.query
t.test('what is meant for kas is taken out', async (t) => {
  t.same(parse('/?watch=1&gitlab-agent-id=42&gitlab-csrf-token=x&gitlab-csrf-token=y'), {
    path: '/',
    rawPath: '/',
    query: [['watch', ['1']]],
    rawQuery: 'watch=1',
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

// wire: 8154.prefix.openapi
t.test('a document of OpenAPI without the prefix, as older kubectl asks for it', async (t) => {
  const withToken = (target: string) => parseTarget(target, '/k8s-proxy/', { authorization: ['Bearer pat:42:x'] })
  const asked = '/openapi/v3/apis/apps/v1?hash=AB%2F'
  t.match(withToken(asked), {
    path: '/openapi/v3/apis/apps/v1',
    rawPath: '/openapi/v3/apis/apps/v1',
    rawQuery: 'hash=AB%2F',
  })
  t.equal(withToken(`/k8s-proxy${asked}`).path, '/openapi/v3/apis/apps/v1')
  t.equal(withToken(`https://kas.example.com${asked}`).path, '/openapi/v3/apis/apps/v1')
  t.equal(parseTarget('/openapi/v3/a', '/openapi/', { authorization: ['x'] }).path, '/v3/a', 'the prefix counts first')
  for (const other of ['/openapi/v3', '/openapi/v3/', '/openapi/v2', '/api/v1', '/x/openapi/v3/a', '/openapi%2Fv3/a'])
    t.throws(() => withToken(other), { code: 'PREFIX_MISSING' }, other)
  t.throws(() => withToken('/openapi/v3/../../x'), { code: 'BAD_REQUEST' })
  for (const head of [undefined, { authorization: [] }])
    t.throws(() => parseTarget(asked, '/k8s-proxy/', head), { code: 'PREFIX_MISSING' }, 'a cookie is not enough')
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

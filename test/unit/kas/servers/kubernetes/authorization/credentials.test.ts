import t from 'tap'
import { readCredentials } from '../../../../../../src/kas/servers/kubernetes/authorization/credentials.ts'

const none: string[] = []
const read = (
  head: Partial<Record<'authorization' | 'cookies' | 'agentIds' | 'csrfTokens', string[]>>,
  query: Partial<Record<'agentIds' | 'csrfTokens', string[]>> = {},
) =>
  readCredentials(
    { authorization: none, cookies: none, agentIds: none, csrfTokens: none, ...head },
    { agentIds: none, csrfTokens: none, ...query },
  )
const bearer = (value: string) => read({ authorization: [value] })

// wire: credential.ci, credential.pat
t.test('tokens', async (t) => {
  t.same(bearer('Bearer ci:42:glcbt-a:b'), { kind: 'job', agentId: 42n, token: 'glcbt-a:b' })
  t.same(bearer('Bearer pat:9223372036854775807:x'), {
    kind: 'user',
    agentId: 9223372036854775807n,
    candidates: [{ type: 'personal_access_token', key: 'x' }],
  })
})

// from doc/reference/captured.md 3 and upstream's tests
const refusals: [string, string][] = [
  ['Token asdf', 'Authorization header: expecting Bearer token'],
  ['bearer ci:1:a', 'Authorization header: expecting Bearer token'],
  ['Bearer', 'Authorization header: expecting Bearer token'],
  ['Bearer asdf', 'Authorization header: invalid value'],
  ['Bearer ci:1', 'Authorization header: invalid value'],
  ['Bearer ci:x:a', 'Authorization header: failed to parse: strconv.ParseInt: parsing "x": invalid syntax'],
  ['Bearer pat:asdf:as', 'Authorization header: failed to parse: strconv.ParseInt: parsing "asdf": invalid syntax'],
  ['Bearer ci::a', 'Authorization header: failed to parse: strconv.ParseInt: parsing "": invalid syntax'],
  [
    'Bearer ci:9223372036854775808:a',
    'Authorization header: failed to parse: strconv.ParseInt: parsing "9223372036854775808": value out of range',
  ],
  ['Bearer ci:0:a', 'Authorization header: failed to parse: strconv.ParseInt: parsing "0": value out of range'],
  ['Bearer ci:-1:a', 'Authorization header: failed to parse: strconv.ParseInt: parsing "-1": value out of range'],
  ['Bearer ci:1:', 'Authorization header: empty token'],
  ['Bearer ci_user:1:a', 'Authorization header: unknown token type'],
  ['Bearer blabla:1:asd', 'Authorization header: unknown token type'],
]
// wire: error.credential.scheme, error.credential.value, error.credential.agent-id, error.credential.range
// wire: error.credential.empty, error.credential.type
for (const [value, text] of refusals) {
  t.throws(() => bearer(value), { code: 'CREDENTIALS_INVALID', message: `Unauthorized: ${text}` }, value)
}

t.test('a token at the place of the agent id is not repeated', async (t) => {
  try {
    bearer('Bearer ci:glcbt-0123456789abcdefghij:42')
    t.fail('must throw')
  } catch (error) {
    t.notMatch((error as Error).message, /glcbt/)
  }
})

// wire: error.credential.two, error.credential.scheme, error.credential.none
t.test('headers that contradict one another', async (t) => {
  const message = 'Unauthorized: Authorization header: expecting a single header, got 2'
  t.throws(() => read({ authorization: ['a', 'b'] }), { message })
  t.throws(() => read({ authorization: ['Bearer ci:1:a', 'Bearer ci:1:a'] }), { message })
  t.throws(
    () => read({ authorization: ['Basic x'], cookies: ['_gitlab_kas=k'], agentIds: ['1'], csrfTokens: ['c'] }),
    { message: 'Unauthorized: Authorization header: expecting Bearer token' },
    'the cookie does not stand in',
  )
  t.throws(() => read({}), { message: 'Unauthorized: no valid credentials provided' })
  t.throws(() => read({ cookies: ['other=1'] }), { message: 'Unauthorized: no valid credentials provided' })
})

// wire: credential.cookie, credential.cookie.query, credential.cookie.decode, credential.cookie.several
t.test('cookies', async (t) => {
  const cookie = (key: string) => ({ type: 'session_cookie', key, csrfToken: 'c' })
  const head = { agentIds: ['42'], csrfTokens: ['c'] }
  t.same(read({ cookies: ['a=b; _gitlab_kas=x%2By+z%3D; c=d'], ...head }), {
    kind: 'user',
    agentId: 42n,
    candidates: [cookie('x+y z=')],
  })
  t.same(
    read({ cookies: ['_gitlab_kas=1;_gitlab_kas="2"', '_gitlab_kas=3; _gitlab_kas=4'], ...head }),
    { kind: 'user', agentId: 42n, candidates: [cookie('1'), cookie('2'), cookie('3')] },
    'at most three are tried',
  )
  t.match(
    read({ cookies: ['_gitlab_kas=k'] }, { agentIds: ['7'], csrfTokens: ['c'] }),
    { agentId: 7n, candidates: [cookie('k')] },
    'from the query',
  )
  t.match(read({ cookies: ['_gitlab_kas=k'], ...head }, { agentIds: ['7'], csrfTokens: ['d'] }), { agentId: 42n })
})

// wire: error.credential.csrf, error.credential.cookie-agent, error.credential.cookie-empty
// wire: error.credential.cookie-value
t.test('cookies that are refused', async (t) => {
  const message = (text: string) => ({ code: 'CREDENTIALS_INVALID', message: `Unauthorized: ${text}` })
  const cookies = ['_gitlab_kas=k']
  const agentIds = ['42']
  const noId =
    'exactly one agent id must be provided either in the "Gitlab-Agent-Id" header or "gitlab-agent-id" query parameter'
  const noCsrf =
    'exactly one CSRF token must be provided either in the "X-Csrf-Token" header or "gitlab-csrf-token" query parameter'
  t.throws(() => read({ cookies: ['_gitlab_kas='], agentIds }), message('_gitlab_kas cookie value must not be empty'))
  t.throws(() => read({ cookies: ['_gitlab_kas=%zz'], agentIds }), message('_gitlab_kas invalid cookie value'))
  t.throws(() => read({ cookies }), message(noId))
  t.throws(() => read({ cookies }, { agentIds: ['1', '2'] }), message(noId))
  t.throws(() => read({ cookies, agentIds: ['a', 'b'] }), message('Gitlab-Agent-Id header must have exactly one value'))
  t.throws(() => read({ cookies, agentIds: ['abcd'] }), message('agent id in request: invalid value: "abcd"'))
  t.throws(() => read({ cookies, agentIds }), message(noCsrf))
  t.throws(() => read({ cookies, agentIds }, { csrfTokens: ['a', 'b'] }), message(noCsrf))
  t.throws(
    () => read({ cookies, agentIds, csrfTokens: ['x', 'y'] }),
    message('X-Csrf-Token header must have exactly one value'),
  )
})

t.test('cookies without end: twenty are looked at', async (t) => {
  const cookies = (bad: number) => [`${'_gitlab_kas=%;'.repeat(bad)}_gitlab_kas=good`]
  const rest = { agentIds: ['1'], csrfTokens: ['x'] }
  t.match(read({ cookies: cookies(19), ...rest }), { candidates: [{ key: 'good' }] })
  t.throws(() => read({ cookies: cookies(20), ...rest }), { message: /_gitlab_kas invalid cookie value$/ })
})

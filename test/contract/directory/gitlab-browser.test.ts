import t, { type Test } from 'tap'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { startGitlabSide } from '../../support/gitlab/gitlab-side.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'
import { clusterForward, data, head, trailer } from '../kubernetes-server/fake-cluster.ts'
import { createKubernetesServer } from '../kubernetes-server/start-server.ts'

/**
 * Requests of GitLab's dashboard, on 8154 and at GitLab (doc/reference/tunnel-protocol.md 6.1 to 6.3,
 * doc/reference/gitlab-contract.md 3).
 */

const page = 'https://gitlab.example.com'
const authorizePath = '/internal/kubernetes/authorize_proxy_user'

async function start(t: Test, configuration: string) {
  const gitlab = await GitlabDouble.start(t, { world: suiteWorld(configuration) })
  const { directory } = await startGitlabSide(t, gitlab)
  const seen: { headers: Record<string, readonly string[]>; impersonation: unknown; query: unknown }[] = []
  const forward = clusterForward(async function* ({ header }) {
    seen.push({ headers: Object.fromEntries(header.header), impersonation: header.impersonation, query: header.query })
    yield head(200, [['Content-Type', ['application/json']]])
    yield data('{}')
    yield trailer
  })
  const options = { urlPathPrefix: '/-/k8s-proxy/', externalUrl: page }
  const { server } = createKubernetesServer(forward, options, undefined, { directory })
  t.teardown(() => server.stop(AbortSignal.abort()))
  await server.start()
  const { port } = server.address as { port: number }
  const call = (init: RequestInit, query = '') =>
    fetch(`http://127.0.0.1:${port}/-/k8s-proxy/api/v1/pods${query}`, init)
  return { gitlab, seen, call }
}

const asUser = 'user_access: { access_as: { user: {} }, projects: [{ id: platform/clusters }] }'
const session = { 'Gitlab-Agent-Id': '42', 'X-CSRF-Token': 'csrf-of-ada', Cookie: '_gitlab_kas=cookie-of-ada' }

// wire: 8154.origin.good, 8154.preflight, credential.cookie, as.user, as.user.extra, rest.authorize_proxy_user.cookie
// wire: request.credentials
t.test('a page of GitLab, by cookie and CSRF token, as its user', async (t) => {
  const { gitlab, seen, call } = await start(t, asUser)
  const preflight = await call({
    method: 'OPTIONS',
    headers: { Origin: page, 'Access-Control-Request-Method': 'GET', 'Access-Control-Request-Headers': 'x-a' },
  })
  t.equal(preflight.status, 200)
  t.equal(gitlab.calls.length, 0, 'a preflight has no credentials')
  const response = await call({ headers: { Origin: page, ...session } })
  t.equal(response.status, 200)
  t.equal(response.headers.get('content-type'), 'application/json')
  t.equal(response.headers.get('access-control-allow-origin'), page)
  t.equal(response.headers.get('access-control-allow-credentials'), 'true')
  t.match(gitlab.of(authorizePath)[0]?.body, { access_type: 'session_cookie', access_key: 'cookie-of-ada' })
  t.strictSame(seen[0]?.impersonation, {
    username: 'gitlab:user:ada',
    groups: [
      'gitlab:user',
      ...['guest', 'planner', 'reporter', 'developer', 'maintainer'].map((role) => `gitlab:project_role:1:${role}`),
    ],
    uid: '',
    extra: [
      { key: 'agent.gitlab.com/id', val: ['42'] },
      { key: 'agent.gitlab.com/username', val: ['ada'] },
      { key: 'agent.gitlab.com/access_type', val: ['session_cookie'] },
      { key: 'agent.gitlab.com/config_project_id', val: ['1'] },
    ],
  })
  for (const name of ['Cookie', 'Gitlab-Agent-Id', 'X-Csrf-Token', 'Authorization']) {
    t.notOk(name in (seen[0]?.headers ?? {}), `${name} stays with kas`)
  }
})

// wire: credential.cookie.query, request.query
t.test('the same by query, as browsers must for WebSockets', async (t) => {
  const { seen, call } = await start(t, asUser)
  const query = '?gitlab-agent-id=42&gitlab-csrf-token=csrf-of-ada&watch=true'
  t.equal((await call({ headers: { Cookie: session.Cookie } }, query)).status, 200)
  t.match(seen[0]?.query, [
    ['allowWatchBookmarks', ['true']],
    ['watch', ['true']],
  ])
})

// wire: credential.cookie.several, credential.cookie.decode
t.test('several cookies: the first that GitLab accepts', async (t) => {
  const { gitlab, call } = await start(t, asUser)
  const Cookie = '_gitlab_kas=stale; other=1; _gitlab_kas=undecipherable; _gitlab_kas=cookie%2Dof%2Dada; _gitlab_kas=no'
  t.equal((await call({ headers: { ...session, Cookie } })).status, 200)
  t.strictSame(
    gitlab.of(authorizePath).map(({ body }) => (body as { access_key: string }).access_key),
    ['stale', 'undecipherable', 'cookie-of-ada'],
  )
})

// wire: 8154.origin.foreign, error.credential.csrf, error.credential.cookie-empty, error.credential.cookie-value
// wire: error.credential.header
t.test('who is refused, and with what', async (t) => {
  const { gitlab, seen, call } = await start(t, asUser)
  const cases = [
    [
      { ...session, Origin: 'https://evil.example.com' },
      403,
      /^Forbidden: the Origin of the request is not that of GitLab/,
    ],
    [{ ...session, 'X-CSRF-Token': 'another' }, 401, 'Unauthorized'],
    [{ ...session, Cookie: '_gitlab_kas=another' }, 401, 'Unauthorized'],
    [{ ...session, 'Gitlab-Agent-Id': '43' }, 401, 'Unauthorized'],
    [{ ...session, 'Gitlab-Agent-Id': 'x' }, 401, /^Unauthorized: agent id in request: invalid value/],
    [{ ...session, 'X-CSRF-Token': '' }, 401, /^Unauthorized: exactly one CSRF token must be provided/],
    [{ ...session, Cookie: '_gitlab_kas=' }, 401, 'Unauthorized: _gitlab_kas cookie value must not be empty'],
    [{ ...session, Cookie: '_gitlab_kas=%zz' }, 401, 'Unauthorized: _gitlab_kas invalid cookie value'],
    [{ ...session, Authorization: 'Basic x' }, 401, /Authorization header: expecting Bearer token/],
  ] as const
  for (const [headers, status, told] of cases) {
    const response = await call({ headers })
    t.equal(response.status, status)
    const text = await response.text()
    t.equal(response.headers.get('gitlab-unauthorized'), status === 401 ? 'true' : null)
    t.match((JSON.parse(text) as { message: string }).message.replace('GitLab Agent Server: ', ''), told)
  }
  t.equal(seen.length, 0)
  t.equal(gitlab.of(authorizePath).length, 3, 'what is malformed is not asked')
})

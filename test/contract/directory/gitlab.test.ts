import { decodeJwt, decodeProtectedHeader } from 'jose'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { startGitlabSide } from '../../support/gitlab/gitlab-side.ts'
import { type GitlabVersion, gitlabVersions } from '../../support/gitlab/gitlab-versions.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'
import { directorySuite, rejects } from './directory-suite.ts'

const tokens = {
  agent: 'glagent-prod',
  ada: 'glpat-ada',
  bob: 'glpat-bob',
  jobs: { clusters: 'job-clusters', web: 'job-web', other: 'job-other' },
}
const { signal } = new AbortController()
const agentId = 42n as AgentId
const newPath = '/internal/agents/agentk/agent_info'
const oldPath = '/internal/kubernetes/agent_info'
const versions = Object.keys(gitlabVersions) as GitlabVersion[]

for (const version of versions) {
  directorySuite(t, `GitLab ${version}`, async (t, configuration) => {
    const gitlab = await GitlabDouble.start(t, { version, world: suiteWorld(configuration) })
    const { directory } = await startGitlabSide(t, gitlab)
    return { directory, tokens }
  })
}

async function start(t: Test, version: GitlabVersion = '18.9', root = '') {
  const gitlab = await GitlabDouble.start(t, {
    version,
    root,
    world: suiteWorld('user_access: { access_as: { user: {} }, projects: [{ id: platform/clusters }] }'),
  })
  return { gitlab, ...(await startGitlabSide(t, gitlab)) }
}

/** Returns the headers that kas set on a call, with the names it sent. */
function sent(call: GitlabDouble['calls'][number] | undefined): Record<string, string> {
  const { rawHeaders = [] } = call ?? {}
  const pairs = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [[name, rawHeaders[i + 1] ?? ''] as const] : []))
  return Object.fromEntries(pairs.filter(([name]) => !/^(host|connection|content-length)$/i.test(name)))
}

// wire: rest.agent_info, rest.jwt, rest.token, rest.user-agent, rest.gzip, rest.accept
t.test('agent_info is asked with these headers, and a JWT of this form', async (t) => {
  const { gitlab, directory } = await start(t)
  await directory.agentByToken(tokens.agent, signal)
  t.equal(gitlab.calls.length, 1)
  const [call] = gitlab.calls
  t.match(call, { method: 'GET', path: newPath, body: undefined })
  const { 'Gitlab-Kas-Api-Request': jwt = '', ...headers } = sent(call)
  t.strictSame(headers, {
    'User-Agent': 'gitlab-kas/v18.5.0/abcdef',
    'Accept-Encoding': 'gzip',
    Accept: 'application/json',
    'Gitlab-Agent-Api-Request': tokens.agent,
    'Gitlab-Agentk-Api-Request': tokens.agent,
  })
  t.strictSame(decodeProtectedHeader(jwt), { alg: 'HS256', typ: 'JWT' })
  const { iat = 0, nbf, exp, ...claims } = decodeJwt(jwt)
  t.strictSame(claims, { iss: 'gitlab-kas', aud: ['gitlab'] })
  t.ok(Math.abs(Date.now() / 1000 - iat) < 5)
  t.strictSame([nbf, exp], [iat - 5, iat + 30])
})

// wire: rest.root
t.test('the relative root of GitLab stands before every path, also in errors', async (t) => {
  const { gitlab, directory } = await start(t, '18.9', '/git/lab')
  await directory.agentByToken(tokens.agent, signal)
  t.equal(gitlab.calls[0]?.path, newPath)
  gitlab.fault = { kind: 'status', status: 500 }
  const error = await failure(directory.grantJob(agentId, 'job-x', signal))
  t.equal((error.cause as Error).message, 'HTTP status code: 500 for path /git/lab/api/v4/job/allowed_agents')
})

// wire: rest.allowed_agents
t.test('a job asks with its own token alone', async (t) => {
  const { gitlab, directory } = await start(t)
  await directory.grantJob(agentId, tokens.jobs.clusters, signal)
  t.match(gitlab.calls, [{ method: 'GET', path: '/job/allowed_agents' }])
  t.strictSame(sent(gitlab.calls[0]), {
    'User-Agent': 'gitlab-kas/v18.5.0/abcdef',
    'Accept-Encoding': 'gzip',
    Accept: 'application/json',
    'Job-Token': tokens.jobs.clusters,
  })
})

// wire: rest.authorize_proxy_user, rest.authorize_proxy_user.pat, rest.authorize_proxy_user.cookie
t.test('users are asked for as proto JSON has it', async (t) => {
  const { gitlab, directory } = await start(t)
  await directory.grantUser(agentId, { type: 'personal_access_token', key: tokens.ada }, signal)
  const session = { type: 'session_cookie', key: 'cookie-of-ada', csrfToken: 'csrf-of-ada' } as const
  const granted = await directory.grantUser(agentId, session, signal)
  t.match(granted.user, { id: 5n, username: 'ada' })
  t.strictSame(
    gitlab.of('/internal/kubernetes/authorize_proxy_user').map(({ method, body }) => ({ method, body })),
    [
      { method: 'POST', body: { agent_id: '42', access_type: 'personal_access_token', access_key: tokens.ada } },
      {
        method: 'POST',
        body: {
          agent_id: '42',
          access_type: 'session_cookie',
          access_key: 'cookie-of-ada',
          csrf_token: 'csrf-of-ada',
        },
      },
    ],
  )
  t.equal(sent(gitlab.calls[0])['Content-Type'], 'application/json')
  await rejects(t, directory.grantUser(agentId, { ...session, csrfToken: 'other' }, signal), 'USER_UNAUTHORIZED')
  await rejects(t, directory.grantUser(43n as AgentId, session, signal), 'USER_UNAUTHORIZED')
})

// wire: rest.authorize_proxy_user.400
t.test('a cookie that GitLab cannot read is refused, and not for long', async (t) => {
  const { gitlab, directory } = await start(t)
  const cookie = { type: 'session_cookie', key: 'undecipherable', csrfToken: 'x' } as const
  await rejects(t, directory.grantUser(agentId, cookie, signal), 'USER_UNAUTHORIZED')
  await rejects(t, directory.grantUser(agentId, cookie, signal), 'USER_UNAUTHORIZED')
  t.equal(gitlab.calls.length, 2, 'the answer 400 is not kept')
})

// wire: rest.verify_project_access, rest.verify_project_access.refused, rest.accept
t.test('a project that the agent may read', async (t) => {
  const { gitlab, directory } = await start(t)
  t.equal(await directory.readsProject(tokens.agent, 'platform/clusters', signal), true)
  t.equal(await directory.readsProject(tokens.agent, 'other/thing', signal), true, 'it is public')
  t.equal(await directory.readsProject(tokens.agent, 'apps/web', signal), false)
  t.equal(await directory.readsProject('glagent-none', 'other/thing', signal), false)
  await directory.readsProject(tokens.agent, 'apps/web', signal)
  const calls = gitlab.of('/internal/kubernetes/verify_project_access')
  t.strictSame(
    calls.map(({ query }) => query.get('id')),
    ['platform/clusters', 'other/thing', 'apps/web', 'other/thing'],
    'each is asked once',
  )
  t.notOk('Accept' in sent(calls[0]), 'no body is expected')
  gitlab.fault = { kind: 'status', status: 502 }
  await rejects(t, directory.readsProject(tokens.agent, 'group/new', signal), 'DIRECTORY_UNAVAILABLE')
})

// wire: rest.agent_configuration, rest.agent_configuration.body, rest.agent_configuration.404
t.test('a configuration is handed over as it stands in the file', async (t) => {
  const { gitlab, directory } = await start(t)
  const configuration = {
    ci_access: { projects: [{ id: 'a/b', future_key: 1 }] },
    workspaces_of_tomorrow: { x: [true] },
  }
  t.equal(await directory.takeConfiguration(agentId, configuration, signal), 'taken')
  t.equal(await directory.takeConfiguration(43n as AgentId, {}, signal), 'agent_removed')
  t.strictSame(gitlab.taken.get('/internal/kubernetes/agent_configuration'), [
    { agent_id: '42', agent_config: configuration },
  ])
  gitlab.fault = { kind: 'status', status: 500 }
  await rejects(t, directory.takeConfiguration(agentId, {}, signal), 'DIRECTORY_UNAVAILABLE')
})

t.test('where the repository lies is learned with the token', async (t) => {
  const { directory } = await start(t)
  let told = 0
  t.teardown(directory.coordinates.onChange(() => told++))
  t.equal(directory.coordinates.repository(1n), undefined)
  await directory.agentByToken(tokens.agent, signal)
  t.match(directory.coordinates.repository(1n), {
    address: 'unix:/var/opt/gitlab/gitaly/gitaly.socket',
    token: 'gitaly-secret',
    repository: { storageName: 'default', glProjectPath: 'platform/clusters' },
    defaultBranch: 'main',
  })
  t.equal(told, 1)
})

// wire: rest.agent_info, rest.agent_info.old, rest.agent_info.path
t.test('the path of agent_info: the new one, the old one where that is not, and back', async (t) => {
  const { gitlab, directory } = await start(t, '17.9')
  const paths = () => gitlab.calls.splice(0).map(({ path }) => path)
  gitlab.world.agents[0]?.tokens.push('b', 'c', 'd', 'e')
  await directory.agentByToken(tokens.agent, signal)
  t.strictSame(paths(), [newPath, oldPath])
  await directory.agentByToken('b', signal)
  t.strictSame(paths(), [oldPath], 'which one answered is remembered')
  await rejects(t, directory.agentByToken('none', signal), 'UNAUTHENTICATED')
  t.strictSame(paths(), [oldPath])
  gitlab.version = '18.9'
  await directory.agentByToken('c', signal)
  t.strictSame(paths(), [oldPath, newPath], 'GitLab was updated')
  await directory.agentByToken('d', signal)
  t.strictSame(paths(), [newPath])
  gitlab.version = '18.2'
  await directory.agentByToken('e', signal)
  t.strictSame(paths(), [newPath])
})

// wire: rest.agent_info.404, error.agent.404
t.test('neither path is there: no agent, and the log says where to look', async (t) => {
  const { gitlab, directory, lines } = await start(t)
  gitlab.fault = { kind: 'status', status: 404 }
  const error = await failure(directory.agentByToken(tokens.agent, signal))
  t.match(error, { code: 'AGENT_NOT_FOUND', message: /^agent not found: GitLab: HTTP status code: 404 for path/ })
  t.equal(gitlab.calls.length, 2)
  t.ok(lines.some(({ level, msg }) => level === 'warn' && String(msg).includes('gitlab.address')))
  await rejects(t, directory.agentByToken(tokens.agent, signal), 'AGENT_NOT_FOUND')
  t.equal(gitlab.calls.length, 2, 'kept as a refusal')
})

// wire: rest.token.bearer
t.test('a bearer is shown to the oldest GitLab only', async (t) => {
  for (const version of versions) {
    const { gitlab, directory } = await start(t, version)
    gitlab.world.agents[0]?.tokens.push('b')
    await directory.agentByToken(tokens.agent, signal)
    await directory.agentByToken('b', signal)
    await rejects(t, directory.agentByToken('none', signal), 'UNAUTHENTICATED')
    const isBearer = gitlab.calls.map(({ headers }) => headers.authorization !== undefined)
    if (version === '16.5') t.strictSame(isBearer, [false, false, true, true, true], 'learned at the first token')
    else t.notOk(isBearer.includes(true), version)
  }
})

// wire: error.agent.401, error.agent.403, error.agent.unavailable, rest.redirects
t.test('what GitLab says of an agent in the words of upstream, with the reason', async (t) => {
  const { gitlab, directory } = await start(t)
  const cases = [
    [401, 'UNAUTHENTICATED', 'unauthenticated'],
    [403, 'FORBIDDEN', 'forbidden'],
    [500, 'DIRECTORY_UNAVAILABLE', 'unavailable'],
    [302, 'DIRECTORY_UNAVAILABLE', 'unavailable'],
    [429, 'DIRECTORY_UNAVAILABLE', 'unavailable'],
    [400, 'DIRECTORY_UNAVAILABLE', 'unavailable'],
  ] as const
  for (const [status, code, word] of cases) {
    gitlab.fault = { kind: 'status', status }
    const error = await failure(directory.agentByToken(`token-${status}`, signal))
    const path = '/api/v4/internal/agents/agentk/agent_info'
    t.equal(error.message, `${word}: GitLab: HTTP status code: ${status} for path ${path}`)
    t.equal(error.code, code)
  }
})

// wire: error.user.refused, error.user.other, error.ci.401, error.ci.403, error.ci.404, error.ci.other
t.test('what GitLab says of jobs and users', async (t) => {
  const { gitlab, directory } = await start(t)
  const cases = [
    [401, 'JOB_TOKEN_UNAUTHORIZED', 'USER_UNAUTHORIZED'],
    [403, 'JOB_TOKEN_FORBIDDEN', 'USER_UNAUTHORIZED'],
    [404, 'JOB_TOKEN_NOT_FOUND', 'USER_UNAUTHORIZED'],
    [400, 'JOB_AGENTS_FAILED', 'USER_UNAUTHORIZED'],
    [418, 'JOB_AGENTS_FAILED', 'USER_FAILED'],
    [500, 'JOB_AGENTS_FAILED', 'USER_FAILED'],
  ] as const
  for (const [status, ofJob, ofUser] of cases) {
    gitlab.fault = { kind: 'status', status }
    await rejects(t, directory.grantJob(agentId, `job-${status}`, signal), ofJob)
    const credential = { type: 'personal_access_token', key: `pat-${status}` } as const
    await rejects(t, directory.grantUser(agentId, credential, signal), ofUser)
  }
})

// wire: rest.kas-jwt-refused
t.test('a secret that GitLab does not share is no fault of tokens', async (t) => {
  const { gitlab, directory, lines } = await start(t)
  gitlab.secret.fill(0)
  await rejects(t, directory.agentByToken(tokens.agent, signal), 'DIRECTORY_UNAVAILABLE')
  await rejects(
    t,
    directory.grantUser(agentId, { type: 'personal_access_token', key: tokens.ada }, signal),
    'USER_FAILED',
  )
  t.ok(lines.some(({ level, msg }) => level === 'error' && String(msg).includes('authentication_secret_file')))
})

// wire: rest.unknown-keys
t.test('answers that are none of GitLab', async (t) => {
  const { gitlab, directory } = await start(t)
  const answers = [
    [],
    null,
    'x',
    {},
    { agent_id: 42, agent_name: 'prod', project_id: 1 },
    { agent_id: 42.5, project_id: 1 },
    { agent_id: Number.MAX_SAFE_INTEGER + 1, project_id: 1 },
  ]
  for (const [i, body] of answers.entries()) {
    gitlab.fault = { kind: 'json', body }
    const error = await failure(directory.agentByToken(`token-${i}`, signal))
    t.match(error, { code: 'DIRECTORY_UNAVAILABLE', cause: { code: 'GITLAB_ANSWER_INVALID' } })
    await rejects(t, directory.grantJob(agentId, `job-${i}`, signal), 'JOB_AGENTS_FAILED')
    await rejects(
      t,
      directory.grantUser(agentId, { type: 'personal_access_token', key: `${i}` }, signal),
      'USER_FAILED',
    )
  }
  gitlab.fault = {
    kind: 'json',
    body: { agent: { id: 41, config_project: { id: 1 } }, user: { id: 5, username: 'ada' }, access_as: { agent: {} } },
  }
  const other = { type: 'personal_access_token', key: 'about-another-agent' } as const
  await rejects(t, directory.grantUser(agentId, other, signal), 'USER_FAILED')
})

t.test('a token that cannot stand in a header is not sent', async (t) => {
  const { gitlab, directory } = await start(t)
  for (const token of ['', 'a b', 'a\r\nX: y', 'ü', 'x'.repeat(8193)]) {
    await rejects(t, directory.agentByToken(token, signal), 'UNAUTHENTICATED')
    await rejects(t, directory.grantJob(agentId, token, signal), 'JOB_TOKEN_UNAUTHORIZED')
  }
  t.equal(gitlab.calls.length, 0)
})

async function failure(promise: Promise<unknown>): Promise<KasError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof KasError) return error
  throw new Error(`expected a KasError, got ${String(error)}`)
}

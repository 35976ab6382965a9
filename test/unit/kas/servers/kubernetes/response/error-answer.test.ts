import t from 'tap'
import { parse } from 'yaml'
import { errorAnswer, type FailedAt } from '../../../../../../src/kas/servers/kubernetes/response/error-answer.ts'
import { type Delivery, type ErrorSpec, KasError } from '../../../../../../src/lib/errors.ts'

const failed = (failedAt: FailedAt, delivery: Delivery, accept: readonly string[] = []) => {
  return { failedAt, delivery, accept, traceId: undefined, isDiscovery: false }
}
const answer = (spec: ErrorSpec, at: 'entry' | 'tunnel' = 'entry', accept: string[] = [], cause?: unknown) => {
  const made = errorAnswer(new KasError(spec, { cause }), failed(at, at === 'entry' ? 'none' : 'maybe', accept))
  const headers = new Map<string, string>()
  for (let i = 0; i < made.headers.length; i += 2) headers.set(made.headers[i] as string, made.headers[i + 1] as string)
  return { ...made, headers }
}
const message = (made: { body: string | Uint8Array }) => JSON.parse(String(made.body)).message

// wire: error.status, error.prefix, error.json, error.credential.header, error.ci.401, error.ci.404, error.ci.other
// wire: error.ci.agent, error.user.refused
t.test('captured bodies', async (t) => {
  const cause = (status: number) =>
    new KasError({ code: 'GITLAB_STATUS', status, path: '/api/v4/job/allowed_agents', told: 'more than is shown' })
  const made = answer({ code: 'JOB_TOKEN_UNAUTHORIZED' }, 'entry', [], cause(401))
  t.equal(made.code, 401)
  t.equal(made.headers.get('Content-Type'), 'application/json')
  t.equal(made.headers.get('Gitlab-Unauthorized'), 'true')
  t.equal(made.headers.get('Kas-Delivery'), 'none')
  t.equal(
    made.body,
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"GitLab Agent Server: ' +
      'Unauthorized: CI job token: HTTP status code: 401 for path /api/v4/job/allowed_agents",' +
      '"reason":"Unauthorized","code":401}\n',
  )
  t.equal(
    message(answer({ code: 'JOB_TOKEN_NOT_FOUND' }, 'entry', [], cause(404))),
    'GitLab Agent Server: Not found: agents for CI job token: HTTP status code: 404 for path /api/v4/job/allowed_agents',
  )
  t.equal(
    message(answer({ code: 'JOB_AGENTS_FAILED' }, 'entry', [], cause(500))),
    'GitLab Agent Server: Failed to get allowed agents for CI job token: HTTP status code: 500 for path /api/v4/job/allowed_agents',
  )
  t.equal(message(answer({ code: 'USER_UNAUTHORIZED' }, 'entry', [], cause(401))), 'GitLab Agent Server: Unauthorized')
  t.equal(message(answer({ code: 'AGENT_NOT_ALLOWED' })), 'GitLab Agent Server: Forbidden: agentId is not allowed')
})

// wire: error.user.other
t.test('GitLab that cannot be asked is named', async (t) => {
  const path = '/api/v4/internal/kubernetes/authorize_proxy_user'
  const system = new Error('connect ECONNREFUSED 10.0.0.1:443')
  const away = new KasError(
    { code: 'GITLAB_UNREACHABLE', path, detail: 'ECONNREFUSED', headArrived: false },
    { cause: system },
  )
  t.equal(
    message(answer({ code: 'USER_FAILED' }, 'entry', [], away)),
    `GitLab Agent Server: Failed to authorize user session: GitLab did not answer for path ${path}: ECONNREFUSED`,
  )
})

// wire: error.trace-id
t.test('other causes stay with us', async (t) => {
  const made = answer({ code: 'JOB_AGENTS_FAILED' }, 'entry', [], new Error('connect ECONNREFUSED 10.0.0.1:443'))
  t.equal(message(made), 'GitLab Agent Server: Failed to get allowed agents for CI job token')
  const internal = answer({ code: 'INTERNAL' }, 'entry', [], new Error('secret'))
  t.equal(internal.code, 500)
  t.match(message(internal), /^GitLab Agent Server: Internal error\. Trace ID: [0-9a-f]{32}$/)
  t.match(message(internal), internal.traceId)
})

// wire: error.yaml
t.test('captured YAML', async (t) => {
  const cause = new KasError({ code: 'GITLAB_STATUS', status: 401, path: '/api/v4/job/allowed_agents' })
  const made = answer({ code: 'JOB_TOKEN_UNAUTHORIZED' }, 'entry', ['application/yaml'], cause)
  t.equal(made.headers.get('Content-Type'), 'application/yaml')
  t.equal(
    made.body,
    `apiVersion: v1
code: 401
kind: Status
message: 'GitLab Agent Server: Unauthorized: CI job token: HTTP status code: 401 for
  path /api/v4/job/allowed_agents'
metadata: {}
reason: Unauthorized
status: Failure
`,
  )
})

t.test('YAML that must be read back as it was', async (t) => {
  for (const text of ["it's", 'a\nb: c', 'x'.repeat(200), 'two  spaces '.repeat(12), '\u2028', 'é ☃ 🙂', '# "']) {
    const made = answer({ code: 'STATUS', grpc: 2, message: text }, 'tunnel', ['application/yaml'])
    const wanted = message(answer({ code: 'STATUS', grpc: 2, message: text }, 'tunnel'))
    t.same(parse(String(made.body)), {
      apiVersion: 'v1',
      code: 502,
      kind: 'Status',
      message: wanted,
      metadata: {},
      status: 'Failure',
    })
  }
})

// wire: error.protobuf
t.test('protobuf', async (t) => {
  const made = answer({ code: 'AGENT_NOT_ALLOWED' }, 'entry', ['application/vnd.kubernetes.protobuf, */*'])
  t.equal(made.headers.get('Content-Type'), 'application/vnd.kubernetes.protobuf')
  const text = 'GitLab Agent Server: Forbidden: agentId is not allowed'
  const status = [
    ...[0x0a, 6, 0x0a, 0, 0x12, 0, 0x1a, 0],
    ...[0x12, 7, ...Buffer.from('Failure')],
    ...[0x1a, text.length, ...Buffer.from(text)],
    ...[0x22, 9, ...Buffer.from('Forbidden')],
    ...[0x30, 0x93, 0x03],
  ]
  t.same(
    [...(made.body as Uint8Array)],
    [
      ...Buffer.from('k8s\0'),
      ...[0x0a, 12, 0x0a, 2, ...Buffer.from('v1'), 0x12, 6, ...Buffer.from('Status')],
      ...[0x12, status.length, ...status],
      ...[0x1a, 0, 0x22, 0],
    ],
  )
})

t.test('media types', async (t) => {
  const type = (...accept: string[]) =>
    answer({ code: 'AGENT_NOT_ALLOWED' }, 'entry', accept).headers.get('Content-Type')
  t.equal(type('*/*'), 'application/json')
  t.equal(type('application/*'), 'application/json')
  t.equal(type('application/json;as=Table;v=v1;g=meta.k8s.io,application/json'), 'application/json')
  t.equal(type('application/json;as=Table;v=v1;g=meta.k8s.io'), 'application/json')
  t.equal(type('text/html', 'application/yaml;q=0.5'), 'application/yaml')
  t.equal(type('application/json;q=0.1, application/yaml'), 'application/yaml')
  t.equal(type('application/json; q=0.1, application/yaml; q=0.9'), 'application/yaml', 'spaces before a weight')
  t.equal(type('text/html'), 'text/plain; charset=utf-8')
  t.equal(type('application/json;q=0'), 'text/plain; charset=utf-8')
})

// wire: error.406
t.test('nothing acceptable, as captured', async (t) => {
  const made = answer({ code: 'CREDENTIALS_INVALID', detail: 'x' }, 'entry', ['text/html'])
  t.equal(made.code, 406)
  t.equal(made.headers.get('Gitlab-Unauthorized'), 'true')
  t.equal(
    made.body,
    'GitLab Agent Server: Failed to negotiate output media type: only the following media types are accepted: ' +
      'application/json, application/yaml, application/vnd.kubernetes.protobuf\n',
  )
})

// wire: error.502, error.find.absent, error.http.nested.own
t.test('failures on the way', async (t) => {
  const absent = answer({ code: 'AGENT_NOT_CONNECTED', waitedMs: 20_000 }, 'tunnel')
  t.equal(absent.code, 502)
  t.equal(
    absent.body,
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"GitLab Agent Server: ' +
      'HTTP-\\u003egRPC: failed to read gRPC response: rpc error: code = DeadlineExceeded desc = ' +
      'Agent connection not found. Is agent up to date and connected?","reason":"AgentNotConnected","code":502}\n',
  )
  const nested =
    'gRPC -> HTTP: nested impersonation is not supported - agent is already configured to impersonate an identity'
  t.equal(
    message(answer({ code: 'STATUS', grpc: 14, message: nested }, 'tunnel')),
    `GitLab Agent Server: HTTP->gRPC: failed to read gRPC response: rpc error: code = Unavailable desc = ${nested}`,
  )
  t.match(message(answer({ code: 'STATUS', grpc: 99, message: 'x' }, 'tunnel')), /code = Code\(99\) desc = x$/)
  const codes: ErrorSpec[] = [
    { code: 'INVALID_MESSAGE', detail: 'x' },
    { code: 'MESSAGE_TOO_LARGE', bytes: 2, maxBytes: 1 },
    { code: 'DEADLINE_EXCEEDED' },
    { code: 'UNAUTHENTICATED' },
    { code: 'INTERNAL' },
    { code: 'TUNNEL_LOST', delivery: 'maybe' },
  ]
  for (const spec of codes) {
    const made = answer(spec, 'tunnel')
    t.equal(made.code, 502, `${spec.code} is no fault of the caller`)
    t.notOk(made.headers.has('Gitlab-Unauthorized'))
    t.notOk(made.headers.has('Retry-After'))
  }
})

t.test('delivery', async (t) => {
  t.equal(answer({ code: 'STATUS', grpc: 14, message: 'x' }, 'tunnel').headers.get('Kas-Delivery'), 'maybe')
  t.equal(answer({ code: 'TUNNEL_LOST', delivery: 'none' }, 'tunnel').headers.get('Kas-Delivery'), 'none')
  const leaving = errorAnswer(new KasError({ code: 'SHUTTING_DOWN' }), failed('tunnel', 'none'))
  t.equal(leaving.code, 503)
  t.ok(leaving.headers.includes('Retry-After'), 'kubectl repeats it by itself')
  const sent = errorAnswer(new KasError({ code: 'SHUTTING_DOWN' }), failed('tunnel', 'maybe'))
  t.notOk(sent.headers.includes('Retry-After'))
  t.equal(errorAnswer(new KasError({ code: 'TOO_MANY_WAITING', limit: 1 }), failed('tunnel', 'none')).code, 429)
})

t.test('an Accept without end: its first 4096 characters are looked at', async (t) => {
  const answerTo = (accept: string) =>
    errorAnswer(new KasError({ code: 'FORBIDDEN' }), failed('entry', 'none', [accept])).code
  t.equal(answerTo(`${'a/b,'.repeat(1000)}application/json`), 403)
  t.equal(answerTo(`${'a/b,'.repeat(1024)}application/json`), 406)
})

t.test('what a flood is told is encoded once for each media type, and is whole each time', async (t) => {
  const yaml = ['application/yaml']
  for (let i = 0; i < 2; i++) {
    const made = answer({ code: 'CREDENTIAL_NOT_CHECKED' })
    t.match(JSON.parse(String(made.body)), { kind: 'Status', code: 429, reason: 'TooManyRequests' })
    t.match(message(made), /^GitLab Agent Server: Too many unknown credentials/)
    t.match(parse(String(answer({ code: 'CREDENTIAL_NOT_CHECKED' }, 'entry', yaml).body)), { code: 429 })
    t.match(message(answer({ code: 'CREDENTIAL_NOT_CHECKED' }, 'tunnel')), 'HTTP->gRPC')
    const traced = errorAnswer(new KasError({ code: 'CREDENTIAL_NOT_CHECKED' }), {
      ...failed('entry', 'none'),
      traceId: 'feed',
    })
    t.match(message(traced), /Trace ID: feed$/)
  }
})

const away = { code: 'AGENT_NOT_CONNECTED', waitedMs: 0, agentId: '42', awayMs: 65_900 } as const

// wire: error.find.absent
t.test('an agent that is away: since when, and what to do, in words of kas alone', async (t) => {
  const awaySince = Date.parse('2026-06-01T12:00:00Z')
  const made = answer({ ...away, awaySince }, 'tunnel')
  t.strictSame(JSON.parse(String(made.body)), {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message:
      'GitLab Agent Server: Agent connection not found. Is agent up to date and connected? No replica of kas has had a ' +
      'connection of agent 42 since 2026-06-01T12:00:00Z, for 65 s. Its log says why: ' +
      'kubectl -n <namespace of the agent> logs deployment/agentk, in its cluster',
    reason: 'AgentNotConnected',
    code: 502,
  })
  t.equal(made.headers.get('Retry-After'), undefined, 'kubectl would repeat it ten times')
  t.match(message(answer(away, 'tunnel')), / a connection of agent 42 for at least 65 s\. /)
  const unseen = errorAnswer(new KasError(away), failed('tunnel', 'none'))
  t.notOk(unseen.headers.includes('Retry-After'))
  t.match(String(answer(away, 'tunnel', ['application/yaml']).body), /^reason: AgentNotConnected$/m)
})

// wire: error.find.absent
t.test('kubectl shows a failed discovery only if it is text', async (t) => {
  const refused = (spec: ErrorSpec, failedAt: FailedAt = 'tunnel') =>
    errorAnswer(new KasError(spec), {
      ...failed(failedAt, 'none', ['application/json;g=x;v=v2;as=Y']),
      isDiscovery: true,
    })
  const shown: [ErrorSpec, FailedAt, number][] = [
    [away, 'tunnel', 502],
    [{ code: 'AGENT_SATURATED', waitedMs: 20_000 }, 'tunnel', 502],
    [{ code: 'TUNNEL_LOST', delivery: 'maybe' }, 'tunnel', 502],
    [{ code: 'USER_FAILED' }, 'entry', 500],
  ]
  for (const [spec, failedAt, code] of shown) {
    const made = refused(spec, failedAt)
    t.equal(made.code, code)
    t.ok(made.headers.includes('text/plain; charset=utf-8'), spec.code)
    t.equal(made.body, `${made.status.message}\n`)
  }
  for (const spec of [
    { code: 'UNAUTHENTICATED' },
    { code: 'FORBIDDEN' },
    { code: 'SHUTTING_DOWN' },
    { code: 'RATE_EXCEEDED' },
  ] as const) {
    t.ok(refused(spec, 'entry').headers.includes('application/json'), spec.code)
  }
})

// wire: error.discovery.hidden
t.test('kubectl hides the body of a refused discovery: the header Warning has the sentence', async (t) => {
  const asked = { ...failed('entry', 'none'), traceId: 'feed', isDiscovery: true }
  const warningOf = (spec: ErrorSpec, request = asked) => {
    const { headers } = errorAnswer(new KasError(spec), request)
    return headers.flatMap((name, i) => (i % 2 === 0 && name === 'Warning' ? headers[i + 1] : []))
  }
  t.strictSame(warningOf({ code: 'USER_UNAUTHORIZED' }), [
    '299 - "GitLab Agent Server: Unauthorized: the token is not known or has ended, or the agent does not let you in. kas agents lists those that do"',
  ])
  const csrf: ErrorSpec = { code: 'CREDENTIALS_INVALID', detail: 'say "a\\b" \u001b[31m\u00e9\n' }
  t.strictSame(warningOf(csrf), ['299 - "GitLab Agent Server: Unauthorized: say \\"a\\\\b\\" ?[31m??"'], 'of others')
  t.strictSame(
    warningOf({ code: 'AGENT_NOT_ALLOWED' }),
    ['299 - "GitLab Agent Server: Forbidden: agentId is not allowed"'],
    'without a trace, or kubectl printed five of them',
  )
  const long = warningOf({ code: 'CREDENTIALS_INVALID', detail: '"'.repeat(5000) })
  t.equal(long[0]?.length, '299 - "GitLab Agent Server: Unauthorized: "'.length + 2 * (1000 - 'Unauthorized: '.length))
  t.strictSame(warningOf({ code: 'USER_UNAUTHORIZED' }, { ...asked, isDiscovery: false }), [], 'shown')
  for (const code of ['SHUTTING_DOWN', 'RATE_EXCEEDED', 'USER_FAILED'] as const)
    t.strictSame(warningOf({ code }), [], `${code} is repeated or shown`)
})

import { wireSection } from './row.ts'

/** 8154, as kubectl, CI jobs and browsers see it. */

export const proxyOrderRows = wireSection('8154: order of checks, origins', [
  ['8154.origin.foreign', 'W 6.1', 'captured 3', 'a foreign `Origin`: 403, no body, no `Server`'],
  [
    '8154.origin.good',
    'W 6.1',
    'captured 3',
    '`Access-Control-Allow-Origin` echoes it, `-Credentials: true`, `Vary: Origin`; on errors too',
  ],
  ['8154.origin.port', 'G 9.4 no. 34', 'defined', 'any port where `gitlab.external_url` names none, its path ignored'],
  ['8154.origin.none', 'W 6.1', 'defined', 'without `gitlab.external_url` no page may call'],
  [
    '8154.preflight',
    'W 6.1',
    'captured 3',
    'OPTIONS on any path without credentials: 200, headers echoed, all methods, max-age 86400',
  ],
  ['8154.prefix', 'W 6.1', 'defined', 'another prefix: 400 `Bad request: URL does not start with expected prefix`'],
  ['8154.prefix.slash', 'G 9.4 no. 40', 'defined', 'a slash is added to the prefix; the prefix without it is its root'],
  ['8154.order', 'W 6.1', 'defined', 'origin before preflight, prefix before credentials, credentials before agent'],
  ['8154.http1', 'G 9.4 no. 33', 'defined', 'HTTP/1.1 alone is offered'],
])

const unauthorized = '401 `Unauthorized: '

export const credentialRows = wireSection('8154: credentials', [
  ['credential.ci', 'W 6.2', 'captured 3', '`Authorization: Bearer ci:<agent id>:<job token>`'],
  ['credential.pat', 'W 6.2', 'captured 3', '`Authorization: Bearer pat:<agent id>:<token>`'],
  ['credential.cookie', 'W 6.2', 'captured 3', 'cookie `_gitlab_kas`, `Gitlab-Agent-Id`, `X-Csrf-Token`'],
  [
    'credential.cookie.query',
    'W 6.2',
    'defined',
    'the same with `gitlab-agent-id` and `gitlab-csrf-token` in the query; a header goes first',
  ],
  ['credential.cookie.decode', 'W 6.2, G 9.4 no. 36', 'defined', 'the cookie’s value is decoded once, `+` and `%XX`'],
  [
    'credential.cookie.several',
    'G 9.4 no. 35',
    'defined',
    'of several cookies the first that GitLab accepts, three at most',
  ],
  ['error.credential.none', 'W 6.2', 'captured 3', `${unauthorized}no valid credentials provided\``],
  [
    'error.credential.scheme',
    'W 6.2',
    'captured 3',
    `${unauthorized}Authorization header: expecting Bearer token\`, a cookie does not stand in`,
  ],
  ['error.credential.value', 'W 6.2', 'captured 3', `${unauthorized}Authorization header: invalid value\``],
  [
    'error.credential.agent-id',
    'W 6.2',
    'captured 3',
    `${unauthorized}Authorization header: failed to parse: strconv.ParseInt: parsing "x": invalid syntax\``,
  ],
  ['error.credential.range', 'W 6.2', 'defined', 'an id out of int64: `value out of range`'],
  ['error.credential.empty', 'W 6.2', 'captured 3', `${unauthorized}Authorization header: empty token\``],
  [
    'error.credential.type',
    'W 6.2, G 9.1 no. 13',
    'captured 3',
    `${unauthorized}Authorization header: unknown token type\`, \`ci_user\` too`,
  ],
  ['error.credential.two', 'W 6.2', 'defined', 'two Authorization headers: 401, also if they are equal'],
  [
    'error.credential.csrf',
    'W 6.2',
    'captured 3',
    `${unauthorized}exactly one CSRF token must be provided either in the "X-Csrf-Token" header or "gitlab-csrf-token" query parameter\``,
  ],
  ['error.credential.cookie-agent', 'W 6.2', 'defined', `${unauthorized}exactly one agent id must be provided …\``],
  ['error.credential.cookie-empty', 'W 6.2', 'defined', `${unauthorized}_gitlab_kas cookie value must not be empty\``],
  ['error.credential.cookie-value', 'W 6.2', 'defined', `${unauthorized}_gitlab_kas invalid cookie value\``],
  [
    'error.credential.header',
    'W 6.2',
    'captured 3',
    '`Gitlab-Unauthorized: true` on every 401 of kas, never on the cluster’s',
  ],
])

export const accessRows = wireSection('8154: who may, and as whom', [
  [
    'error.ci.401',
    'W 6.3',
    'captured 3',
    'GitLab 401: 401 `Unauthorized: CI job token: HTTP status code: 401 for path /api/v4/job/allowed_agents`',
  ],
  [
    'error.ci.403',
    'W 6.3',
    'captured 3',
    'GitLab 403: 403 `Forbidden: CI job token: HTTP status code: 403 for path …`',
  ],
  [
    'error.ci.404',
    'W 6.3',
    'captured 3',
    'GitLab 404: 404 `Not found: agents for CI job token: HTTP status code: 404 for path …`',
  ],
  [
    'error.ci.other',
    'W 6.3',
    'captured 3',
    'else: 500 `Failed to get allowed agents for CI job token: HTTP status code: 500 for path …`',
  ],
  ['error.ci.agent', 'W 6.3', 'captured 3', 'the agent is not in the list: 403 `Forbidden: agentId is not allowed`'],
  ['error.user.refused', 'W 6.3', 'captured 3', 'GitLab 401, 403, 404: 401 `Unauthorized`'],
  ['error.user.other', 'W 6.3', 'defined', 'else: 500 `Failed to authorize user session`'],
  [
    'error.impersonation',
    'W 6.6, G 9.1 no. 13',
    'defined',
    'an unknown `access_as`: 500, never the agent’s own identity',
  ],
  ['as.agent', 'W 6.3', 'captured 3', '`access_as` absent or `agent`: as the agent'],
  ['as.impersonate', 'W 6.3', 'captured 3', '`impersonate`: as that user'],
  ['as.impersonate.all', 'W 6.3', 'defined', '`impersonate`: groups, uid and extra as they are'],
  ['as.ci_job', 'W 6.3, G 4.4', 'captured 3', '`ci_job`: user `gitlab:ci_job:<id>`'],
  ['as.ci_job.groups', 'W 6.3, G 4.4', 'defined', '`ci_job`: groups in their order, with and without environment'],
  ['as.ci_job.extra', 'W 6.3, G 4.4', 'defined', '`ci_job`: the keys of extra, `agent.gitlab.com/…`'],
  ['as.user', 'W 6.3, G 4.4', 'defined', '`user`: `gitlab:user:<username>`, roles in projects, then in groups'],
  ['as.user.extra', 'W 6.3, G 4.4', 'defined', '`user`: the keys of extra, `access_type` too'],
  ['as.own-headers', 'W 6.3', 'captured 3', 'the caller’s own `Impersonate-*` headers pass'],
  ['access.again', 'W 6.3', 'defined', 'a stream is authorised again while it runs, and ends with its reason'],
])

export const transformRows = wireSection('8154: requests and answers', [
  ['request.path', 'W 6.4', 'defined', 'the path without the prefix, decoded once'],
  ['request.query', 'W 6.4', 'defined', 'the query sorted by name, without `gitlab-agent-id` and `gitlab-csrf-token`'],
  ['request.credentials', 'W 6.4', 'defined', 'Authorization, Cookie, Gitlab-Agent-Id, X-Csrf-Token stay behind'],
  ['request.websocket-token', 'G 9.4 no. 41', 'defined', 'so does a `websocket-token.kas.gitlab.com.` sub-protocol'],
  ['request.hop-by-hop', 'W 6.4', 'defined', 'Host, headers of the hop, and those that `Connection` names stay behind'],
  ['request.via', 'W 6.4', 'defined', '`Via: gRPC/1.0 gitlab-kas/<version>/<commit>` is appended'],
  ['request.body', 'W 6.4', 'defined', 'header, data and trailer are sent, then the half-close'],
  ['answer.hop-by-hop', 'W 6.4', 'defined', 'headers of the hop are removed'],
  ['answer.server', 'W 6.4', 'captured 3', '`Server` of kas on its own answers alone, the cluster’s stays'],
  ['answer.cors', 'W 6.4', 'defined', 'the cluster’s CORS headers are removed, `Vary` is merged'],
  ['answer.via', 'W 6.4', 'captured 3', '`Via: <agent’s>, gRPC/1.0 gitlab-kas/<version>/<commit>`'],
  ['answer.content-type', 'G 0 no. 8', 'captured 3', '`Content-Type` byte for byte'],
  [
    'answer.warning',
    'W 6.4, G 10.3 no. 18',
    'unsure',
    '`Warning: 299 - "…"` where versions of agent and GitLab do not fit',
  ],
  ['answer.allow-list', 'W 6.4, G 9.4 no. 37', 'unsure', 'the allow-list of response headers, off unless switched on'],
  [
    'answer.blocked',
    'W 6.4',
    'defined',
    'a header that it blocks is logged, `Blocked Kubernetes API proxy response header`',
  ],
  ['answer.flush', 'W 6.4', 'defined', 'the head and each chunk leave at once'],
  ['answer.cut', 'W 6.4', 'defined', 'a failure after the status line: the connection is cut'],
  ['answer.left', 'W 6.4', 'defined', 'who leaves cancels the call'],
])

export const upgradeRows = wireSection('8154: upgrades', [
  [
    'upgrade.request',
    'W 6.5',
    'defined',
    '`Upgrade`, `Connection: upgrade`, `content_length` 0, trailer, no half-close',
  ],
  ['upgrade.early', 'W 6.5', 'defined', 'bytes that came with the request pass'],
  ['upgrade.other', 'W 6.5', 'defined', 'another status than 101: an ordinary answer, and the half-close'],
  ['upgrade.client-ends', 'W 6.5', 'defined', 'the client’s end is a half-close, what is left still arrives'],
  ['upgrade.agent-ends', 'W 6.5', 'defined', 'the agent’s end closes the connection'],
  ['upgrade.spdy', 'W 6.5', 'captured 4', 'SPDY/3.1, by POST too'],
  ['upgrade.names', 'W 6.5', 'defined', 'headers of the handshake in canonical spelling, `Sec-Websocket-Key`'],
  ['upgrade.write-deadline', 'W 6.5', 'defined', 'a client that takes nothing is cut'],
  ['upgrade.kubectl', 'W 6.5', 'captured 4', 'exec, attach, port-forward, cp of kubectl over both protocols'],
])

export const errorRows = wireSection('8154: errors of kas', [
  [
    'error.status',
    'W 6.6',
    'captured 3',
    'a Kubernetes `Status`, `metadata` {}, a newline at its end, `<`, `>`, `&` escaped as Go does',
  ],
  ['error.prefix', 'W 6.6', 'captured 3', 'message begins `GitLab Agent Server: `'],
  ['error.trace-id', 'W 6.6', 'defined', 'an unknown fault ends `Trace ID: <hex>`, the log has it'],
  ['error.trace-id.traced', 'W 6.6', 'defined', 'when traces are on, each error ends with the id of its trace'],
  ['error.json', 'W 6.6', 'captured 3', '`Content-Type: application/json`, exactly'],
  ['error.yaml', 'W 6.6', 'captured 3', 'YAML where `Accept` wants it, folded as Go does'],
  ['error.protobuf', 'W 6.6', 'defined', 'Kubernetes protobuf where `Accept` wants it'],
  [
    'error.406',
    'W 6.6',
    'captured 3',
    '406 `Failed to negotiate output media type: only the following media types are accepted: …`, text/plain',
  ],
  [
    'error.502',
    'W 6.6',
    'captured 3',
    'the agent’s side failed: 502 `HTTP->gRPC: failed to read gRPC response: rpc error: code = … desc = …`, no reason',
  ],
  [
    'error.reason',
    'W 6.6',
    'captured 3',
    'the reason by the code: Unauthorized, Forbidden, NotFound, BadRequest, Gone, none for 502',
  ],
  ['error.malformed', 'W 6.6', 'defined', 'malformed requests: 400, heads that are too large: 431'],
])

export const limitRows = wireSection('8154: times and limits', [
  ['figure.head', 'W 6.7', 'defined', 'a head has 10 s'],
  ['figure.keep-alive', 'W 6.7', 'defined', 'an idle connection is kept 60 s'],
  ['figure.write', 'W 6.5', 'defined', 'a write to an upgraded client has 20 s'],
  ['limit.body', 'W 6.7', 'defined', 'bodies of any size pass'],
  ['limit.grace.listen', 'W 6.7', 'defined', 'in `listen_grace_period` new connections are still served'],
  ['limit.grace.shutdown', 'W 6.7', 'defined', 'what runs has `shutdown_grace_period`'],
])

export const watchApiRows = wireSection('8154: WebSocket APIs', [
  ['watch.protocol', 'W 6.8, G 3.6', 'defined', '`<prefix>watch`, sub-protocol `gitlab-agent-watch-api`'],
  ['watch.watch', 'W 6.8', 'defined', '`{type: "watch", watch_id, watch_params}`'],
  ['watch.unwatch', 'W 6.8', 'defined', '`unwatch` with `watch_id`'],
  ['watch.event', 'W 6.8', 'defined', '`{type, watchId, watchEvent{type, object}}`'],
  ['watch.error', 'W 6.8', 'defined', '`error.message`, `error.object.message`'],
  ['watch.token', 'W 6.8, G 3.6', 'defined', 'GET with `kas-websocket-token-request=true`: `{token}`'],
  [
    'watch.token.protocol',
    'W 6.8, G 3.6',
    'defined',
    'offered as `websocket-token.kas.gitlab.com.<token>`; the first sub-protocol is answered',
  ],
  [
    'watch.token.replicas',
    'G 9.4 no. 39',
    'unsure',
    'a token of one replica serves at another, for its path, for a short time',
  ],
  ['watch.credentials', 'W 6.8', 'defined', 'normal credentials serve as well'],
  ['watch.404', 'W 6.8, G 9.3 no. 25', 'defined', 'without the secret: 404, the UI goes without'],
  ['graph.404', 'W 6.8, G 9.4 no. 38', 'unsure', '`<prefix>graph`: 404'],
])

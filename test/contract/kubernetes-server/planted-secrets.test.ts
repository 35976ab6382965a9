import t from 'tap'
import type { Directory } from '../../../src/kas/directory/directory.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { AccessLines } from '../../support/access-lines.ts'
import { type Cluster, clusterForward, data, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { startServer } from './start-server.ts'

/** 10,000 calls full of secrets: none of these reaches the access log (doc/reference/access-log.md). */

const calls = 10_000
const atOnce = 8

/** The secret in three forms: plain, as a value of a Secret (base64), and URL-encoded. */
const planted = 'planted'
const forms = [planted, Buffer.from(planted).toString('base64').replace(/=*$/, ''), encodeURIComponent('pl\u00e4nted')]
const secret = forms.join('.')

const user = { id: 5n, username: 'ada' }
const directory: Pick<Directory, 'grantJob' | 'grantUser'> = {
  grantJob: async (_agent, token, _signal, { onKnown } = {}) => {
    const [job, pipeline, project] = [{ id: 900n }, { id: 90n }, { id: 3n, groups: [] }]
    onKnown?.({ user, job: { id: job.id, pipelineId: pipeline.id, projectId: project.id } })
    if (token.endsWith('refused')) throw new KasError({ code: 'AGENT_NOT_ALLOWED' })
    return { accessAs: { as: 'ci_job' }, configProjectId: 1n, user, job, pipeline, project }
  },
  grantUser: async (_agent, { key }, _signal, { onKnown } = {}) => {
    onKnown?.({ user })
    if (key.endsWith('refused')) throw new KasError({ code: 'USER_UNAUTHORIZED' })
    return { accessAs: { as: 'agent' }, configProjectId: 1n, user }
  },
}

/** Answers with secrets, by words in the path. */
const cluster: Cluster = async function* ({ header, messages, body }) {
  const is = (word: string) => header.urlPath.includes(word)
  const headers: [string, string[]][] = [
    ['Content-Type', ['application/json']],
    ['Set-Cookie', [`session=${secret}`]],
    ['Warning', [`299 - "${secret}"`]],
  ]
  if (is('/exec') && !is('refuses')) {
    yield head(101, [
      ['Upgrade', ['websocket']],
      ['Connection', ['Upgrade']],
    ])
    yield trailer
    await messages.next()
    yield encodeHttpResponse.upgradeData(Buffer.from(secret))
    return
  }
  await body()
  if (is('lost')) throw new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })
  const text = JSON.stringify({ kind: 'Secret', data: { password: secret } })
  yield head(is('refuses') ? 403 : is('fails') ? 500 : 200, [...headers, ['Content-Length', [String(text.length)]]])
  yield data(text)
  yield trailer
}

const web = '/k8s-proxy/api/v1/namespaces/web'
const authorizations = {
  user: `Authorization: Bearer pat:42:${secret}`,
  job: `Authorization: Bearer ci:42:${secret}`,
  'a user who is refused': `Authorization: Bearer pat:42:${secret}refused`,
  'a job that is refused': `Authorization: Bearer ci:42:${secret}refused`,
}
const page = [`Cookie: _gitlab_kas=${secret}; other=${secret}`, 'Gitlab-Agent-Id: 42', `X-Csrf-Token: ${secret}`]
const headers = [
  `X-Planted: ${secret}`,
  `Private-Token: ${secret}`,
  `Proxy-Authorization: Basic ${secret}`,
  `Audit-ID: ${secret}`,
  `Traceparent: 00-${secret}`,
  `Referer: https://gitlab.example.com/?token=${secret}`,
  `Sec-WebSocket-Protocol: websocket-token.kas.gitlab.com.${secret}`,
]
const requests: readonly (readonly [request: string, body?: string])[] = [
  [`GET ${web}/secrets/s`],
  [`GET ${web}/secrets?limit=5&continue=${secret}&resourceVersion=${secret}`],
  [`GET ${web}/pods?access_token=${secret}&private_token=${secret}`],
  [`POST ${web}/secrets?fieldManager=${secret}`, JSON.stringify({ data: { password: secret } })],
  [`PATCH ${web}/configmaps/c`, JSON.stringify({ data: { password: secret } })],
  [`DELETE ${web}/pods/a?dryRun=${secret}`, secret],
  [`POST ${web}/serviceaccounts/a/token`, JSON.stringify({ spec: { audiences: [secret] } })],
  [`GET ${web}/pods/a/log?container=${secret}`],
  [`GET ${web}/pods/a/proxy/${secret}?${secret}=${secret}&labelSelector=${secret}`],
  [`POST ${web}/services/s/proxy/${secret}/proxy/${secret}`, secret],
  [`GET /k8s-proxy/api/v1/proxy/namespaces/web/pods/a/${secret}`],
  [`GET /k8s-proxy/version?${secret}=${secret}`],
  [`GET ${web}/pods/refuses?token=${secret}`],
  [`PUT ${web}/secrets/fails`, secret],
  [`PUT ${web}/secrets/lost`, secret],
  [`POST ${web}/pods/refuses/exec?command=sh&command=-c&command=${secret}`],
]

function requestOf(i: number): string {
  const [line = '', body = ''] = requests[i % requests.length] ?? []
  const who = Object.values(authorizations)[Math.floor(i / requests.length) % 4] ?? ''
  const asPage = Math.floor(i / requests.length) % 5 === 4
  const all = [...(asPage ? page : [who]), ...headers, `Content-Length: ${Buffer.byteLength(body)}`]
  return `${line} HTTP/1.1\r\nHost: kas\r\n${all.join('\r\n')}\r\n\r\n${body}`
}

t.test('10,000 lines of calls that are full of secrets', { timeout: 120_000 }, async (t) => {
  const access = new AccessLines({ rules: [{ level: 'metadata' }] })
  const { server, port, log } = await startServer(clusterForward(cluster), {}, undefined, {
    accessLog: access.log,
    directory,
    webSocketTokens: new WebSocketTokens({ secret: Buffer.alloc(64), clock: systemClock }),
  })
  t.teardown(() => server.stop(AbortSignal.abort()))
  let next = 0
  /** Makes calls in a row. After a refusal before the end of the body, the connection closes. */
  const caller = async () => {
    let client: RawClient | undefined
    while (next < calls) {
      client ??= await RawClient.open(port)
      client.text = ''
      await client.write(requestOf(next++)).until(/\r\n\r\n[\s\S]*\}\n?$/)
      if (!/^Connection: close/m.test(client.text)) continue
      client.close()
      client = undefined
    }
    client?.close()
  }
  await Promise.all(Array.from({ length: atOnce }, caller))
  const lines = await access.count(calls)
  t.equal(lines.length, calls, 'one each')
  const kinds = new Set(lines.map(({ class: name, status, reason }) => `${name} ${status} ${reason ?? ''}`))
  for (const kind of [
    'write 200 ',
    'secret 200 ',
    'refusal 403 ',
    'refusal 401 USER_UNAUTHORIZED',
    'write 502 TUNNEL_LOST',
  ])
    t.ok(kinds.has(kind), `${kind} is among ${[...kinds].join(', ')}`)

  for (const headers of [[authorizations.user], page]) {
    const exec = await RawClient.open(port)
    t.teardown(() => exec.close())
    exec.request(
      `GET ${web}/pods/a/exec?command=sh&command=-c&command=${secret}&stdin=true`,
      ...headers,
      'Connection: Upgrade',
      'Upgrade: websocket',
    )
    await exec.write(secret).until(new RegExp(planted))
    exec.close()
  }
  for (const path of [`/${secret}/api`, `/k8s-proxy/agents/${secret}`, `/k8s-proxy/watch?token=${secret}`])
    for (const credentials of [`Authorization: ${secret}`, `Cookie: _gitlab_kas=${secret}`]) {
      const stranger = await RawClient.open(port)
      t.teardown(() => stranger.close())
      await stranger.request(`GET ${path}`, credentials, ...headers, 'Connection: close').toEnd()
    }
  await access.count(calls + 5)
  await access.log.stop()
  t.ok(log.length > calls / 4, 'kas says at level debug what has failed')
  for (const form of [...forms, decodeURIComponent(forms[2] ?? '')]) {
    t.equal(access.text.split(form).length - 1, 0, `${form}: in the access log`)
    t.equal(log.join('').split(form).length - 1, 0, `${form}: in kas\u2019 log`)
  }
})

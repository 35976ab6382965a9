import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { create } from '@bufbuild/protobuf'
import { anyPack } from '@bufbuild/protobuf/wkt'
import t from 'tap'
import { HeaderExtraSchema as KubernetesExtraSchema } from '../../../src/proto/gen/kubernetes_api_pb.ts'
import { type GitlabVersion, gitlabVersions } from '../../support/gitlab/gitlab-versions.ts'
import { access, data, type HeadInit, headOf, messageOf, openAccess, startAccess, trailer } from './access-side.ts'

/** Requests that pass, or do not pass, between an agent and GitLab's own modules. */

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of request as AsyncIterable<Buffer>) parts.push(part)
  return Buffer.concat(parts)
}

for (const version of Object.keys(gitlabVersions) as GitlabVersion[]) {
  t.test(`a module of GitLab ${version}, below a relative root, gets the request and answers it`, async (t) => {
    const { gitlab, dial } = await startAccess(t, { gitlab: { version, root: '/gitlab' } })
    gitlab.module = async (request, response) => {
      response.writeHead(201, 'Made', [
        ...['Content-Type', 'application/json', 'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'X-Utf8', 'caf\xc3\xa9'],
        ...['Connection', 'X-Hop', 'X-Hop', '1', 'Keep-Alive', 'timeout=5'],
      ])
      response.end(`${request.url} ${await bodyOf(request)}`)
    }
    const head: HeadInit = {
      moduleName: 'a module',
      method: 'POST',
      path: '/x y/ü',
      query: { b: ['2', '1'], a: ['&'] },
      header: { 'Content-Type': ['application/json'], 'X-Two': ['1', '2'], 'User-Agent': ['curl'] },
      contentLength: 4,
    }
    const answer = await access(await dial(), head, data('{"a"'.slice(0, 2)), data('"}'), trailer)
    t.strictSame(
      [answer.statusCode, answer.status, answer.kinds, answer.error],
      [201, '201 Made', ['header', 'data', 'trailer'], undefined],
    )
    t.equal(
      String(answer.body),
      '/gitlab/api/v4/internal/kubernetes/modules/a%20module/x%20y/%C3%BC?a=%26&b=2&b=1 {""}',
    )
    t.match(answer.header, {
      'Content-Type': ['application/json'],
      'Set-Cookie': ['a=1', 'b=2'],
      'X-Utf8': ['caf\xc3\xa9'],
    })
    t.strictSame(
      ['Connection', 'X-Hop', 'Keep-Alive', 'Transfer-Encoding'].filter((name) => name in answer.header),
      [],
      'nothing of the hop',
    )
    const call = gitlab.calls.at(-1)
    t.equal(call?.userAgent, 'gitlab-kas/v18.5.0/abcdef')
    t.match(call?.headers, { 'content-type': 'application/json', 'content-length': '4' })
    t.equal(call?.headers['x-two'], '1, 2')
  })
}

t.test('who calls is what kas says; headers of the hop and of others who vouch stay behind', async (t) => {
  const { gitlab, dial } = await startAccess(t)
  gitlab.module = (_, response) => response.end()
  const refused = [
    ...['Authorization', 'Cookie', 'Job-Token', 'Private-Token', 'Sudo', 'Host', 'Te', 'Upgrade-Insecure', 'X-Hop'],
    ...['Gitlab-Agent-Api-Request', 'gitlab-agentk-api-request', 'Gitlab-Kas-Api-Request', 'Gitlab-Workhorse'],
    ...['X-Forwarded-For', 'Forwarded', 'X-Real-Ip', 'X-Accel-Mapping', 'X-Sendfile-Type', 'Expect', 'Keep-Alive'],
  ]
  const header = {
    ...Object.fromEntries(refused.map((name) => [name, ['forged']])),
    Connection: ['keep-alive', 'X-Hop, upgrade-insecure'],
    Accept: ['application/json'],
    Traceparent: ['00-1-2-03'],
  }
  t.equal((await access(await dial(), { header, contentLength: 0 })).statusCode, 200)
  const call = gitlab.calls.at(-1)
  t.ok(call && !call.rawHeaders.join().includes('forged'))
  t.match(call?.headers, {
    'gitlab-agent-api-request': 'glagent-prod',
    'gitlab-kas-api-request': /^eyJ/,
    accept: 'application/json',
    traceparent: '00-1-2-03',
  })
})

t.test('requests without a body, however their agent says so', async (t) => {
  const { gitlab, dial } = await startAccess(t)
  gitlab.module = (request, response) => {
    const { 'content-length': length = '', 'transfer-encoding': coding = '' } = request.headers
    if (request.method === 'DELETE') return void response.writeHead(204).end()
    response.writeHead(200, { 'Content-Length': 2 }).end([length, coding].join().padEnd(2))
  }
  const agent = await dial()
  for (const contentLength of [0, -1, undefined]) {
    const head = contentLength === undefined ? {} : { contentLength }
    const get = await access(agent, head)
    t.strictSame([get.kinds, String(get.body)], [['header', 'data', 'trailer'], ', '.slice(0, 1).padEnd(2)])
    t.strictSame((await access(agent, { ...head, method: 'HEAD' })).kinds, ['header', 'trailer'])
    t.match(await access(agent, { ...head, method: 'DELETE' }), { statusCode: 204, kinds: ['header', 'trailer'] })
  }
  t.strictSame((await access(agent, { method: 'HEAD' })).header['Content-Length'], ['2'])
})

t.test('1 MiB both ways, as it comes', async (t) => {
  const { gitlab, dial } = await startAccess(t)
  gitlab.module = (request, response) => {
    t.equal(request.headers['transfer-encoding'], 'chunked')
    request.pipe(response)
  }
  const { stream, send, next } = openAccess(await dial())
  await send(headOf({ method: 'PUT', contentLength: -1 }), data('first'))
  t.match(await next(), { case: 'header', value: { response: { statusCode: 200 } } })
  t.match(await next(), { case: 'data', value: { data: Buffer.from('first') } }, 'before the request is whole')
  const body = randomBytes(1 << 20)
  const sending = (async () => {
    for (let at = 0; at < body.length; at += 32 << 10) await send(data(body.subarray(at, at + (32 << 10))))
    await send(trailer)
    stream.end()
  })()
  const back: Uint8Array[] = []
  for (let message = await next(); message?.case === 'data'; message = await next()) back.push(message.value.data)
  await sending
  t.equal(Buffer.concat(back).equals(body), true)
  t.equal((await stream.done).error, undefined)
})

t.test('an answer that comes before the request is whole is the answer', async (t) => {
  const { gitlab, dial } = await startAccess(t)
  gitlab.module = (_, response) => response.writeHead(413).end('too large')
  const { send, answer } = openAccess(await dial())
  await send(headOf({ method: 'PUT', contentLength: 1 << 20 }), data('first'))
  const { statusCode, body, error } = await answer()
  t.strictSame([statusCode, String(body), error], [413, 'too large', undefined])
})

t.test('messages that must not come end the call, and what GitLab was asked', async (t) => {
  const { gitlab, dial } = await startAccess(t)
  gitlab.module = () => undefined // GitLab does not answer
  const agent = await dial()
  const order = (from: string, to: string) => new RegExp(`^forbidden transition from ${from} to ${to}`)
  const wrongExtra = anyPack(KubernetesExtraSchema, create(KubernetesExtraSchema, {}))
  const put = headOf({ method: 'PUT', contentLength: -1 })
  for (const [messages, message, grpcCode = 3] of [
    [[trailer], order('start', 'trailer')],
    [[data('x')], order('start', 'data')],
    [[], order('start', 'EOF')],
    [[put, put], order('header', 'header')],
    [[put], order('header', 'EOF')],
    [[put, data('x')], order('data', 'EOF')],
    [[put, data('x'), put], order('data', 'header')],
    [[put, data('x'), trailer, data('x')], order('trailer', 'data')],
    [[put, trailer, trailer], order('trailer', 'trailer')],
    [[headOf({ contentLength: 0 }), data('x'), trailer], 'unexpected HttpRequest_Data message received', 13],
    [[headOf({ contentLength: 2 }), data('x'), trailer], 'the body is shorter than content_length'],
    [[headOf({ contentLength: 2 }), trailer], 'the body is shorter than content_length'],
    [[headOf({ contentLength: 2 }), data('xyz'), trailer], 'the body is longer than content_length'],
    [[put, trailer, messageOf({ case: 'upgradeData', value: {} })], 'connection upgrade is not supported'],
    [[Buffer.alloc(0)], 'no field of HttpRequest.message is set'],
    [[headOf({ extra: undefined })], 'HttpRequest.Header.extra needs module_name'],
    [[headOf({ moduleName: '' })], 'HttpRequest.Header.extra needs module_name'],
    [[headOf({ extra: wrongExtra })], 'HttpRequest.Header.extra is of an unknown type'],
  ] as const) {
    const { send, stream, answer } = openAccess(agent)
    await send(...messages)
    stream.end()
    t.match((await answer()).error, { grpcCode, message })
  }
})

t.test('a head that cannot be is not passed on', async (t) => {
  const { gitlab, dial } = await startAccess(t)
  const agent = await dial()
  await access(agent) // from here on the token is known
  const asked = gitlab.calls.length
  for (const [head, message] of [
    [{ path: '/../agent_configuration' }, 'url_path must not hold . or .. as a segment'],
    [{ path: '/a/..' }, 'url_path must not hold . or .. as a segment'],
    [{ path: '/./a' }, 'url_path must not hold . or .. as a segment'],
    [{ path: '/a\\..\\b' }, 'url_path must not hold . or .. as a segment'],
    [{ path: 'reconcile' }, 'url_path must begin with a slash'],
    [{ moduleName: '..' }, 'module_name is no name'],
    [{ moduleName: '../agent_configuration' }, 'module_name is no name'],
    [{ method: 'CONNECT' }, 'the method of the request is not served'],
    [{ method: 'GET / HTTP/1.1\r\n' }, 'the method of the request is not served'],
    [{ header: { Upgrade: ['websocket'] } }, 'connection upgrade is not supported'],
    [{ header: { 'X-A': ['1\r\nX-B: 2'] } }, 'the value of header X-A is not valid'],
    [{ header: { 'X A': ['1'] } }, 'a header name is not valid'],
    [{ header: { 'X-A': Array<string>(501).fill('1') } }, 'there are more than 500 header lines'],
    [{ path: `/${'x'.repeat(1 << 16)}` }, 'the head of the request has more than 65536 bytes'],
  ] as const) {
    t.match((await access(agent, head)).error, { grpcCode: 3, message })
  }
  t.equal(gitlab.calls.length, asked)
  const double = (await access(agent, { path: '/%2e%2e/%2E.' })).statusCode
  t.equal(double, 404)
  t.equal(gitlab.calls.at(-1)?.path, '/internal/kubernetes/modules/remote_development/%252e%252e/%252E.')
})

t.test('a token that GitLab does not know', async (t) => {
  const { dial } = await startAccess(t)
  const { stream } = openAccess(await dial(), 'none')
  t.match((await stream.done).error, { grpcCode: 16, message: /^unauthenticated: GitLab/ })
})

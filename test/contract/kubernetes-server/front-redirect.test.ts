import t, { type Test } from 'tap'
import type { Usage } from '../../../src/kas/directory/usage.ts'
import { clusterForward, echo } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { agentId, good, startServer } from './start-server.ts'

/** Answer to a front that passes a request to the replica with the agent (doc/guide/kubernetes-proxy.md "Behind a front"). */

async function setUp(t: Test) {
  const asked: bigint[] = []
  const counted: string[] = []
  const redirect = {
    locationFor: (_request: unknown, agent: bigint) => {
      asked.push(agent)
      return '@kas-2'
    },
  }
  const count = (name: string) => () => void counted.push(name)
  const usage: Usage = { counter: count, unique: count, event: count }
  const started = await startServer(clusterForward(echo), {}, undefined, { redirect, usage })
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const client = async () => {
    const opened = await RawClient.open(started.port)
    t.teardown(() => opened.close())
    return opened
  }
  return { ...started, client, asked, counted }
}

t.test('a request without a body is answered with the location alone', async (t) => {
  const { client, count, asked, counted } = await setUp(t)
  const upgrade = ['Connection: Upgrade', 'Upgrade: SPDY/3.1']
  const requests = [
    ['GET', 'Origin: https://gitlab.example.com'],
    ['HEAD'],
    ['DELETE', 'Content-Length: 0'],
    ['GET', ...upgrade],
    ['POST', ...upgrade],
  ]
  for (const [method, ...headers] of requests) {
    const opened = (await client()).request(`${method} /k8s-proxy/api`, good, ...headers)
    const text = await opened.until(/\r\n\r\n$/)
    t.match(text, /^HTTP\/1\.1 200 OK\r\n/, `${method} ${headers}`)
    const lines = text.trimEnd().split('\r\n').slice(1)
    t.same(
      lines.filter((line) => !/^(Date|Connection|Keep-Alive): /.test(line)),
      ['X-Accel-Redirect: @kas-2', 'Content-Length: 0'],
      'a front would add the rest to the answer of the next replica',
    )
  }
  t.same(asked, Array(requests.length).fill(agentId))
  t.equal(await count('redirected'), requests.length)
  t.same(counted, [], 'who carries it counts it')
})

t.test('a request with a body is carried', async (t) => {
  const { client, asked } = await setUp(t)
  const known = (await client()).request('PATCH /k8s-proxy/api', good, 'Content-Length: 2').write('{}')
  t.match(await known.until(/"body":"\{\}"/), /^HTTP\/1\.1 200 OK\r\n/)
  const chunked = (await client()).request('GET /k8s-proxy/api', good, 'Transfer-Encoding: chunked')
  chunked.write('2\r\n{}\r\n0\r\n\r\n')
  t.match(await chunked.until(/"body":"\{\}"/), /^HTTP\/1\.1 200 OK\r\n/)
  t.same(asked, [])
})

t.test('all checks come first', async (t) => {
  const { client, asked } = await setUp(t)
  const refusals: [head: string[], status: number][] = [
    [['GET /k8s-proxy/api'], 401],
    [['GET /k8s-proxy/api', 'Authorization: Bearer ci:42:bad'], 401],
    [['GET /k8s-proxy/api', 'Authorization: Bearer ci:43:good'], 403],
    [['GET /k8s-proxy/api', 'Origin: https://other.example.com'], 403],
    [['GET /elsewhere', good], 400],
    [['GET /k8s-proxy/watch', good, 'Connection: Upgrade', 'Upgrade: websocket'], 404],
  ]
  for (const [[line = '', ...headers], status] of refusals) {
    const text = await (await client()).request(line, ...headers).until(/\r\n\r\n/)
    t.match(text, new RegExp(`^HTTP/1\\.1 ${status} `), `${line} ${headers}`)
    t.notMatch(text, /X-Accel/i)
  }
  t.same(asked, [])
})

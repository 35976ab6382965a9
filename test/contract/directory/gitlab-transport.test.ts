import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { inspect } from 'node:util'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { createGitlabDispatcher } from '../../../src/kas/directory/gitlab/gitlab-dispatcher.ts'
import { createGitlabMetrics } from '../../../src/kas/directory/gitlab/gitlab-metrics.ts'
import { openPassage } from '../../../src/kas/directory/gitlab/passage.ts'
import { createRegistry } from '../../../src/lib/metrics.ts'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { createGitlabClient, startGitlabSide } from '../../support/gitlab/gitlab-side.ts'

/** The connection to GitLab: TLS, proxies, sockets, and faults of its configuration. */

const { signal } = new AbortController()

t.test('a certificate of an authority that the configuration names', async (t) => {
  const authority = await Authority.create('private')
  const tls = await authority.issueServing({ dns: ['gitlab.test'], ip: ['127.0.0.1'] })
  const gitlab = await GitlabDouble.start(t, { tls })
  const caCertificateFile = join(t.testdir({ 'ca.crt': authority.certificate }), 'ca.crt')
  const trusting = await startGitlabSide(t, gitlab, { client: { caCertificateFile } })
  t.match(await trusting.directory.agentByToken('glagent-prod', signal), { id: 42n })
})

t.test('a certificate of an authority that nobody named', async (t) => {
  const authority = await Authority.create('private')
  const tls = await authority.issueServing({ dns: [], ip: ['127.0.0.1'] })
  const gitlab = await GitlabDouble.start(t, { tls })
  const { directory } = await startGitlabSide(t, gitlab)
  const error = await directory.agentByToken('glagent-prod', signal).catch((one: unknown) => one)
  t.match(error, { code: 'DIRECTORY_UNAVAILABLE', message: /GitLab did not answer .*(CERT|SIGNATURE|ISSUER)/ })
})

/** A proxy that passes everything to one local port, and records the requested URLs. */
async function startProxy(t: Test, port: number) {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  const proxy = createServer((incoming, response) => {
    asked.push(incoming.url ?? '')
    const { pathname } = new URL(incoming.url ?? '')
    const outgoing = request({ port, host: '127.0.0.1', path: pathname, headers: incoming.headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    outgoing.on('error', () => response.destroy())
    outgoing.end()
  })
  proxy.on('connect', (incoming, client: Socket) => {
    asked.push(incoming.url ?? '')
    const server = connect(port, '127.0.0.1', () => client.write('HTTP/1.1 200 OK\r\n\r\n'))
    for (const socket of [server, client]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
    }
    server.pipe(client)
    client.pipe(server)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => {
    proxy.close()
    for (const socket of sockets) socket.destroy()
  })
  return { asked, url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` }
}

t.test('an answer arrives whole, though GitLab closes while the body is written', async (t) => {
  const said = randomBytes(100_000)
  for (const [name, address] of [
    ['direct', undefined],
    ['by a proxy', 'http://gitlab.test'],
  ] as const) {
    await t.test(name, async (t) => {
      const gone = Promise.withResolvers<void>()
      const server = createTcpServer((socket) => {
        socket.on('error', () => undefined).on('close', () => gone.resolve())
        socket.once('data', () => {
          socket.write(`HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: ${said.length}\r\n\r\n`)
          socket.write(said, () => socket.destroy())
        })
      }).listen(0, '127.0.0.1')
      await once(server, 'listening')
      t.teardown(() => server.close())
      const here = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const dispatcher = await createGitlabDispatcher({
        address: address ?? here,
        env: address ? { HTTP_PROXY: here } : {},
        timeouts: { connectMs: 30_000, headMs: 30_000, bodySilenceMs: 30_000 },
        maxConnections: 1,
      })
      t.teardown(() => dispatcher.destroy())
      async function* body() {
        yield Buffer.alloc(1000)
        await gone.promise
        for (let more = 0; more < 3; more++) yield Buffer.alloc(1000) // refused before GitLab reads anything
        await new Promise(() => undefined)
      }
      const request = { origin: address ?? here, path: '/', method: 'POST', headers: [], body: body() }
      const answer = await openPassage(dispatcher, request, { name: 'test', maxSilenceMs: 30_000 }, signal)
      const received: Uint8Array[] = []
      for await (const chunk of answer.body) received.push(chunk)
      t.equal(answer.statusCode, 413)
      t.ok(Buffer.concat(received).equals(said))
    })
  }
})

t.test('by the proxy that the environment names, but not to this machine', async (t) => {
  const gitlab = await GitlabDouble.start(t)
  const port = Number(new URL(gitlab.address).port)
  const proxy = await startProxy(t, port)
  const env = { HTTP_PROXY: proxy.url }
  const own = await startGitlabSide(t, gitlab, { client: { env } })
  t.match(await own.directory.agentByToken('glagent-prod', signal), { id: 42n })
  t.strictSame(proxy.asked, [])
  await t.test('to another host, plain', async (t) => {
    const { directory } = await startGitlabSide(t, gitlab, { client: { env, address: 'http://gitlab.test' } })
    t.match(await directory.agentByToken('glagent-prod', signal), { id: 42n })
    t.match(proxy.asked, ['http://gitlab.test/api/v4/internal/agents/agentk/agent_info'])
  })
})

t.test('by a proxy through TLS', async (t) => {
  const authority = await Authority.create('private')
  const tls = await authority.issueServing({ dns: ['gitlab.test'], ip: [] })
  const gitlab = await GitlabDouble.start(t, { tls })
  const proxy = await startProxy(t, Number(new URL(gitlab.address).port))
  const caCertificateFile = join(t.testdir({ 'ca.crt': authority.certificate }), 'ca.crt')
  const env = { HTTPS_PROXY: proxy.url }
  const client = { env, caCertificateFile, address: 'https://gitlab.test' }
  const { directory } = await startGitlabSide(t, gitlab, { client })
  t.match(await directory.agentByToken('glagent-prod', signal), { id: 42n })
  t.strictSame(proxy.asked, ['gitlab.test:443'])
})

t.test('a proxy that cannot be read stops the start, and its value is not shown', async (t) => {
  const secretFile = join(t.testdir({ secret: Buffer.alloc(32).toString('base64') }), 'secret')
  const cases = [
    ['https://gitlab.test', 'HTTPS_PROXY', 'http://user:geheim#w@proxy:3128'],
    ['https://gitlab.test', 'HTTPS_PROXY', 'http://user:geheim%@proxy:3128'],
    ['http://gitlab.test', 'HTTP_PROXY', 'http://ada:123/geheim@proxy:3128'],
    ['http://gitlab.test', 'HTTP_PROXY', 'ftp://ada:geheim@proxy:3128'],
  ] as const
  for (const [address, name, value] of cases) {
    const client = createGitlabClient(t, { address, secretFile, env: { [name]: value } })
    const problem = `${name}: it is no URL of a proxy; %, #, / and @ of a password are written %25, %23, %2F and %40`
    const spec = { code: 'SETTINGS_INVALID', file: 'environment', problems: [problem] }
    const error = await client.start().catch((one: unknown) => one)
    t.match(error, { spec }, value)
    t.notMatch(inspect(error), /geheim|123/)
  }
})

// wire: rest.connections
t.test('connections are used again, and there are never more than 50', async (t) => {
  const gitlab = await GitlabDouble.start(t)
  const { directory } = await startGitlabSide(t, gitlab)
  gitlab.world.agents[0]?.tokens.push(...Array.from({ length: 200 }, (_, i) => `token-${i}`))
  await Promise.all(Array.from({ length: 200 }, (_, i) => directory.agentByToken(`token-${i}`, signal)))
  t.equal(gitlab.calls.length, 200)
  t.ok(gitlab.connections <= 50, `${gitlab.connections} connections`)
})

t.test('what is wrong with files stops the start, and names key and file', async (t) => {
  const folder = t.testdir({
    good: Buffer.alloc(32).toString('base64'),
    short: Buffer.alloc(31).toString('base64'),
    text: 'no certificate',
    broken: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
  })
  const cases = [
    ['absent', undefined, /gitlab\.authentication_secret_file: cannot be read: ENOENT/],
    ['short', undefined, /gitlab\.authentication_secret_file: found 31 bytes, allowed: exactly 32/],
    ['good', 'absent', /gitlab\.ca_certificate_file: cannot be read: ENOENT/],
    ['good', 'text', /gitlab\.ca_certificate_file: found no certificate, allowed: PEM/],
    ['good', 'broken', /gitlab\.ca_certificate_file: cannot be used/],
  ] as const
  for (const [secret, ca, message] of cases) {
    const client = createGitlabClient(t, {
      address: 'http://gitlab.test',
      secretFile: join(folder, secret),
      caCertificateFile: ca && join(folder, ca),
    })
    await t.rejects(client.start(), { code: 'SETTINGS_INVALID', message })
  }
})

// wire: metric.limiter_limit, metric.limiter_block_duration
t.test('calls are measured, by path and status', async (t) => {
  const gitlab = await GitlabDouble.start(t)
  const register = createRegistry()
  const folder = t.testdir({ secret: gitlab.secret.toString('base64') })
  const client = createGitlabClient(
    t,
    { address: gitlab.address, secretFile: join(folder, 'secret'), timeouts: { headMs: 100 } },
    { metrics: createGitlabMetrics(register, { refillPerSecond: 7 }) },
  )
  await client.start()
  const call = { method: 'GET', path: '/job/allowed_agents', queue: 'users', repeatable: false } as const
  await t.rejects(client.send(call, signal))
  gitlab.fault = { kind: 'silent' }
  await t.rejects(client.send(call, signal))
  const text = await register.metrics()
  t.match(text, 'limiter_limit{limiter_name="gitlab_client",unit="per_second"} 7')
  t.match(text, 'limiter_block_duration_milliseconds_count{limiter_name="gitlab_client",allowed="true"} 2')
  t.match(text, 'kas_gitlab_call_duration_seconds_count{path="/job/allowed_agents",status="401"} 1')
  t.match(text, 'kas_gitlab_call_duration_seconds_count{path="/job/allowed_agents",status="none"} 1')
})

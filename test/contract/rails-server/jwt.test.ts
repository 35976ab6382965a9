import * as grpc from '@grpc/grpc-js'
import { UnsecuredJWT } from 'jose'
import t from 'tap'
import { grpcObserver } from '../../../src/kas/observability/grpc-observer.ts'
import { createGrpcServerMetrics, createRegistry } from '../../../src/lib/metrics.ts'
import { callUnary, connect, type JwtInit, jwt, metadataOf, startRailsServer } from './start-server.ts'

const method = '/test.Own/Hello'
const now = () => Math.floor(Date.now() / 1000)
const bearer = async (init?: JwtInit) => `bearer ${await jwt(init)}`

const good: Record<string, () => Promise<string>> = {
  'as GitLab sends it': () => bearer(),
  'the word in any case': async () => `Bearer ${await jwt()}`,
  HS384: () => bearer({ algorithm: 'HS384' }),
  HS512: () => bearer({ algorithm: 'HS512' }),
  'any issuer': () => bearer({ claims: { iss: 'another.example.com' } }),
  'no issuer': () => bearer({ claims: { iss: undefined } }),
  'one audience of several': () => bearer({ claims: { aud: ['other', 'gitlab-kas'] } }),
  'no nbf, iat and jti': () => bearer({ claims: { nbf: undefined, iat: undefined, jti: undefined } }),
  'nbf now': () => bearer({ claims: { nbf: now() } }),
}

const bad: Record<string, () => Promise<string | undefined>> = {
  nothing: async () => undefined,
  empty: async () => '',
  'no scheme': () => jwt(),
  'another scheme': async () => `Basic ${await jwt()}`,
  'no token': async () => 'bearer ',
  'two tokens': async () => `bearer ${await jwt()} ${await jwt()}`,
  'no JWT': async () => 'bearer abc',
  'another secret': () => bearer({ key: Buffer.alloc(32, 7) }),
  'another audience': () => bearer({ claims: { aud: 'gitlab' } }),
  'no audience': () => bearer({ claims: { aud: undefined } }),
  expired: () => bearer({ claims: { exp: now() - 1 } }),
  'expires now': () => bearer({ claims: { exp: now() } }),
  'never expires': () => bearer({ claims: { exp: undefined } }),
  'expires at no number': () => bearer({ claims: { exp: 'never' } }),
  'not yet valid': () => bearer({ claims: { nbf: now() + 30 } }),
  'longer than any of GitLab, though signed': () => bearer({ claims: { more: 'x'.repeat(8192) } }),
  unsigned: async () => `bearer ${new UnsecuredJWT({}).setAudience('gitlab-kas').setExpirationTime('1m').encode()}`,
  'a byte of the signature changed': async () => {
    const token = await jwt()
    const at = token.length - 10
    return `bearer ${token.slice(0, at)}${token[at] === 'A' ? 'B' : 'A'}${token.slice(at + 1)}`
  },
  'another payload under the signature': async () => {
    const [head, , signature] = (await jwt()).split('.')
    const payload = Buffer.from(JSON.stringify({ aud: 'gitlab-kas', exp: now() + 9999 })).toString('base64url')
    return `bearer ${head}.${payload}.${signature}`
  },
}

// wire: jwt.bearer, jwt.algorithms, jwt.issuer, jwt.audience, jwt.times, error.jwt, log.tokens
t.test('a call is let in by its JWT alone', async (t) => {
  const served: string[] = []
  const hello = async (request: Uint8Array) => {
    served.push(Buffer.from(request).toString())
    return request
  }
  const register = createRegistry()
  const { port, log } = await startRailsServer(t, {
    components: {
      methods: new Map([[method, hello]]),
      events: grpcObserver(createGrpcServerMetrics(register), { [method]: 'unary' }),
    },
  })
  const client = connect(t, port)
  for (const [name, authorization] of Object.entries(good)) {
    const metadata = metadataOf({ authorization: await authorization() })
    const { code, response } = await callUnary(client, method, Buffer.from(name), metadata)
    t.strictSame({ code, response: response?.toString() }, { code: grpc.status.OK, response: name }, name)
  }
  t.strictSame(served, Object.keys(good))

  for (const [name, authorization] of Object.entries(bad)) {
    const value = await authorization()
    const metadata = metadataOf(value === undefined ? {} : { authorization: value })
    for (const path of [method, '/test.Agent/Method']) {
      const { code, details } = await callUnary(client, path, Buffer.from(name), metadata)
      t.strictSame({ code, details }, { code: grpc.status.UNAUTHENTICATED, details: 'JWT validation failed' }, name)
    }
    const token = value?.split(' ')[1]
    if (token)
      t.notOk(
        log.some((line) => line.includes(token)),
        `${name}: its token is not in the log`,
      )
  }
  t.equal(served.length, Object.keys(good).length, 'no work is done for the others')

  const told = log.map((line) => JSON.parse(line)).filter(({ level }) => level === 'warn')
  t.match(told, [{ msg: /^A call was refused: if it is of GitLab, is api\.listen\.authentication_secret_file its/ }])
  t.equal(told.length, 1, 'what to look at, once a minute')

  const text = await register.metrics()
  t.match(text, new RegExp(`^grpc_server_handled_total\\{.*"OK"\\} ${Object.keys(good).length}$`, 'm'))
  t.match(text, new RegExp(`^grpc_server_handled_total\\{.*"Unauthenticated"\\} ${Object.keys(bad).length}$`, 'm'))
  t.notMatch(text, 'test.Agent')
})

t.test('metadata that cannot be read is not quoted on stderr', async (t) => {
  const { port } = await startRailsServer(t)
  const written = t.capture(process.stderr, 'write', () => true)
  const errors = t.capture(console, 'error', () => undefined)
  const { connect: dial } = await import('node:http2')
  const session = dial(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const stream = session.request({
    ':method': 'POST',
    ':path': method,
    'content-type': 'application/grpc',
    authorization: 'bearer s\u00e9cret',
  })
  stream.end()
  const headers = await new Promise<Record<string, unknown>>((resolve) => stream.once('response', resolve))
  t.equal(headers['grpc-status'], String(grpc.status.UNAUTHENTICATED))
  t.strictSame([...written(), ...errors()], [])
})

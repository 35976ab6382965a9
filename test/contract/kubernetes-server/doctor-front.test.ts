import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { connect, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { checkFront, type FrontOptions } from '../../../src/kas/cli/doctor/front.ts'
import { parseKasConfig } from '../../../src/kas/config/kas-config.ts'
import type { KasConfig } from '../../../src/kas/config/kas-schema.ts'
import { OpsSocket } from '../../../src/kas/servers/ops-socket/ops-socket.ts'
import { type Finding, findingsText } from '../../../src/lib/doctor/findings.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { startServer } from './start-server.ts'

/** `kas doctor --kubernetes-api-url` with kas behind a sound front, and behind fronts with typical faults. */

/** Behavior of the front; without any of these it passes everything on. */
interface Front {
  /** Answers in place of kas; returns false if it does not. */
  answer?: (request: IncomingMessage, response: ServerResponse) => boolean
  /** Changes the headers that the front passes on. */
  change?: (headers: Record<string, string | string[] | undefined>) => void
  /** Returns the path that kas gets. */
  path?: (path: string) => string
  /** passes an Upgrade on as a plain request */
  dropsUpgrade?: boolean
  /** ms after which an upgraded connection is cut; 0: before it carries anything */
  cutsAfterMs?: number
  /** keeps an upgraded connection open and drops all its bytes */
  swallows?: boolean
  /** first bytes on an upgraded connection */
  says?: Buffer
}

interface World {
  readonly port: number
  readonly front: Front
  readonly folder: string
  /** configuration of kas */
  config: KasConfig
  run(more?: Partial<FrontOptions>): Promise<Finding[]>
}

interface WorldOptions {
  readonly trusted?: readonly string[]
  /** answer of the socket of kas; default: the id of the server */
  readonly status?: { readonly instance?: string }
  /** kas lets no doctor in */
  readonly isOlder?: boolean
}

async function sound(
  t: Test,
  { trusted = ['127.0.0.1'], status = { instance: 'one' }, isOlder = false }: WorldOptions = {},
): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'doctor-front-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const refuse = async () => {
    throw new Error('no cluster is asked')
  }
  const kas = await startServer(
    refuse,
    { addresses: { trustedProxies: trusted, proxyProtocol: false } },
    undefined,
    isOlder ? {} : { isReplica: (instance) => instance === 'one' },
  )
  t.teardown(() => kas.server.stop(AbortSignal.abort()))
  const socket = join(folder, 'ops.sock')
  const ops = new OpsSocket({ answers: { '/status': () => status }, log: capturedLog().log }, { path: socket })
  await ops.start()
  t.teardown(() => ops.stop())
  const front: Front = {}
  const port = await startFront(t, front, kas.port)
  const text = JSON.stringify({
    directory: { file: 'd.yaml' },
    agent: { kubernetes_api: { url_path_prefix: '/k8s-proxy/', listen: { trusted_proxies: trusted } } },
    ops: { socket },
  })
  const world: World = {
    port,
    front,
    folder,
    config: parseKasConfig('kas.yaml', text).config,
    run: (more = {}) => {
      const url = new URL(`http://127.0.0.1:${port}/k8s-proxy/`)
      const options = { url, caFile: undefined, idleSeconds: undefined, isPre: false, ...more }
      return checkFront(world.config, options)
    },
  }
  return world
}

async function startFront(t: Test, front: Front, kasPort: number): Promise<number> {
  const open = new Set<Duplex>()
  const server = createServer((asked, response) => passOn(asked, response))
  const passOn = (asked: IncomingMessage, response: ServerResponse) => {
    if (front.answer?.(asked, response)) return
    const sent = request(optionsOf(asked), (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers)
      answer.pipe(response)
    })
    sent.on('error', () => response.writeHead(502).end())
    asked.pipe(sent)
  }
  const optionsOf = ({ headers, method, url = '' }: IncomingMessage) => {
    const changed: Record<string, string | string[] | undefined> = { ...headers, 'x-forwarded-for': '192.0.2.7' }
    front.change?.(changed)
    return { port: kasPort, host: '127.0.0.1', method, path: front.path?.(url) ?? url, headers: changed, agent: false }
  }
  server.on('upgrade', (asked, near) => {
    open.add(near)
    near.on('error', () => undefined)
    if (front.dropsUpgrade) {
      const { upgrade: _, connection: __, ...headers } = asked.headers
      const sent = request({ ...optionsOf(asked), headers }, (answer) => {
        near.end(`HTTP/1.1 ${answer.statusCode} x\r\nContent-Length: 0\r\n\r\n`)
      })
      return void sent.end()
    }
    const sent = request(optionsOf(asked))
    sent.on('upgrade', ({ rawHeaders }, far) => {
      open.add(far)
      far.on('error', () => undefined)
      const lines = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}`] : []))
      const head = `HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`
      if (front.cutsAfterMs === 0) return void near.end(head, () => near.destroy())
      near.write(head)
      if (front.says) near.write(front.says)
      if (front.swallows) return void near.resume()
      near.pipe(far).pipe(near)
      if (front.cutsAfterMs !== undefined) setTimeout(() => [near, far].map((one) => one.destroy()), front.cutsAfterMs)
    })
    sent.end()
  })
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  t.teardown(() => {
    for (const one of open) one.destroy()
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

const withState = (findings: readonly Finding[], ...states: Finding['state'][]) =>
  findings.filter(({ state }) => states.includes(state))

t.test('behind a front that is well nothing is complained of', async (t) => {
  const { run, port } = await sound(t)
  for (const path of ['/k8s-proxy', '/k8s-proxy/']) {
    const findings = await run({ idleSeconds: 1, url: new URL(`http://127.0.0.1:${port}${path}`) })
    t.strictSame(withState(findings, 'failed', 'note', 'skipped'), [], path)
  }
  const findings = await run()
  t.match(findings, [
    { check: 'front', state: 'ok', subject: '--kubernetes-api-url', text: /: kas answers$/ },
    { state: 'ok', text: 'this call is from 192.0.2.7 by the front at 127.0.0.1' },
    { state: 'ok', text: 'a request with a head of 7 KiB comes to kas' },
    { state: 'ok', text: 'a body of 1.5 MiB comes to kas' },
    { state: 'ok', text: 'an Upgrade to a WebSocket comes to kas' },
    { check: 'idle', state: 'skipped', advice: /--idle 70/ },
  ])
})

t.test('no two requests have one URL, so that no cache of a front answers', async (t) => {
  const { front, run } = await sound(t)
  const urls: (string | undefined)[] = []
  front.answer = ({ url }) => {
    urls.push(url)
    return false
  }
  await run()
  await run()
  t.equal(urls.length, 6)
  t.equal(new Set(urls).size, urls.length)
})

interface Fault {
  readonly world?: WorldOptions
  /** default: failed */
  readonly state?: Finding['state']
  readonly check?: string
  readonly says: RegExp
  readonly advises: RegExp
  readonly more?: (world: World) => Partial<FrontOptions>
  plant(front: Front, world: World): void
}

const long = ({ headers }: IncomingMessage) => JSON.stringify(headers).length > 4096
const answering = (status: number, headers: Record<string, string> = {}): NonNullable<Front['answer']> => {
  return (_, response) => {
    response.writeHead(status, headers).end('<html>a page</html>')
    return true
  }
}

/** Answers as kas could, with the fields of `more`. */
const answeringAsKas = (more: object): NonNullable<Front['answer']> => {
  const kas = { client: '192.0.2.7', sender: '127.0.0.1', isTrusted: true, isForwarded: true, bytes: 0 }
  return (asked, response) => {
    asked.resume()
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ ...kas, ...more }))
    return true
  }
}

const faults: Readonly<Record<string, Fault>> = {
  'a path that leads elsewhere': {
    says: /what answers is not kas: status 404/,
    advises: /does the front lead \/k8s-proxy\/ to port 8154 of kas/,
    plant: (front) => {
      front.answer = answering(404)
    },
  },
  'a page with status 200': {
    says: /what answers is not kas: status 200/,
    advises: /8154/,
    plant: (front) => {
      front.answer = answering(200)
    },
  },
  'an API server in its place': {
    says: /what answers is not kas: status 403/,
    advises: /login/,
    plant: (front) => {
      front.answer = (_, response) => {
        response.writeHead(403, { 'Content-Type': 'application/json' })
        response.end('{"kind":"Status","message":"forbidden: User \\"system:anonymous\\""}')
        return true
      }
    },
  },
  'a front that leads elsewhere': {
    says: /status 301, and leads to https:\/\/kas\.example\.com\/k8s/,
    advises: /give the URL in full, with https/,
    plant: (front) => {
      front.answer = answering(301, { Location: 'https://kas.example.com/k8s' })
    },
  },
  'a front that wants a login': {
    says: /what answers is not kas: status 401/,
    advises: /without a login of its own/,
    plant: (front) => {
      front.answer = answering(401)
    },
  },
  'a front that wants a login, and says so in JSON': {
    says: /what answers is not kas: status 401/,
    advises: /without a login of its own/,
    plant: (front) => {
      front.answer = (_, response) => {
        response.writeHead(401, { 'Content-Type': 'application/json', 'Gitlab-Unauthorized': 'true' })
        response.end('{"message":"Unauthorized: no valid credentials provided"}')
        return true
      }
    },
  },
  'a front that does not reach kas': {
    says: /what answers is not kas: status 502/,
    advises: /the front does not reach kas/,
    plant: (front) => {
      front.answer = answering(502)
    },
  },
  'a front that takes the prefix away': {
    says: /kas answers that the path does not begin with its prefix/,
    advises: /url_path_prefix \(\/k8s-proxy\/\)/,
    plant: (front) => {
      front.path = (path) => path.replace('/k8s-proxy', '')
    },
  },
  'a front that takes Authorization away': {
    says: /kas gets no Authorization header/,
    advises: /pass Authorization on/,
    plant: (front) => {
      front.change = (headers) => delete headers.authorization
    },
  },
  'a front that leads to another kas': {
    world: { status: { instance: 'another' } },
    says: /another kas answers/,
    advises: /one secret in private_api\.listen, or is the secret being changed\?$/,
    plant: () => undefined,
  },
  'a replica of an older version': {
    world: { isOlder: true },
    state: 'note',
    says: /does not let doctor in: status 401/,
    advises: /all replicas have this version/,
    plant: () => undefined,
  },
  'a front that is not trusted': {
    world: { trusted: [] },
    state: 'note',
    says: /all callers have the address 127\.0\.0\.1 of the front/,
    advises: /name 127\.0\.0\.1 there/,
    plant: () => undefined,
  },
  'a front that names nobody': {
    state: 'note',
    says: /sends no X-Forwarded-For/,
    advises: /let it add X-Forwarded-For/,
    plant: (front) => {
      front.change = (headers) => delete headers['x-forwarded-for']
    },
  },
  'a front that takes no long heads': {
    says: /a request with a head of 7 KiB does not come to kas: status 431/,
    advises: /large_client_header_buffers/,
    plant: (front) => {
      front.answer = (asked, response) => long(asked) && answering(431)(asked, response)
    },
  },
  'a front that takes no long bodies': {
    says: /a body of 1\.5 MiB does not come to kas: status 413/,
    advises: /client_max_body_size/,
    plant: (front) => {
      front.answer = (asked, response) => asked.method === 'POST' && answering(413)(asked, response)
    },
  },
  'a front that lets part of a body through': {
    says: /a body of 1\.5 MiB does not come to kas whole: 4096 bytes of the body have come/,
    advises: /client_max_body_size/,
    plant: (front) => {
      front.answer = (asked, response) => asked.method === 'POST' && answeringAsKas({ bytes: 4096 })(asked, response)
    },
  },
  'a front that sends a long message on a WebSocket': {
    says: /a WebSocket is opened, and closed by what is between/,
    advises: /upgrade_configs/,
    plant: (front) => {
      front.says = Buffer.from('827e0401', 'hex') // the head of a message of 1025 bytes; the message never comes
    },
  },
  'a front that takes Upgrade away': {
    says: /an Upgrade to a WebSocket is answered with status 200/,
    advises: /proxy_set_header Upgrade/,
    plant: (front) => {
      front.dropsUpgrade = true
    },
  },
  'a front that cuts WebSockets at once': {
    says: /a WebSocket is opened, and closed by what is between|Upgrade to a WebSocket fails/,
    advises: /upgrade_configs/,
    plant: (front) => {
      front.cutsAfterMs = 0
    },
  },
  'a front that cuts an idle stream': {
    check: 'idle',
    says: /an idle stream was cut after \d+ s/,
    advises: /proxy_read_timeout of nginx/,
    more: () => ({ idleSeconds: 30 }),
    plant: (front) => {
      front.cutsAfterMs = 1000
    },
  },
  'a front that forgets an idle stream without a word': {
    check: 'idle',
    says: /an idle stream was cut after \d+ s/,
    advises: /timeout tunnel of HAProxy/,
    more: () => ({ idleSeconds: 1 }),
    plant: (front) => {
      front.swallows = true
    },
  },
  'nobody at the address': {
    says: /127\.0\.0\.1:1: .*ECONNREFUSED/,
    advises: /nothing listens at 127\.0\.0\.1:1/,
    more: () => ({ url: new URL('http://127.0.0.1:1/k8s-proxy') }),
    plant: () => undefined,
  },
  'a name that nobody has': {
    says: /kas\.invalid/,
    advises: /does DNS know kas\.invalid/,
    more: () => ({ url: new URL('http://kas.invalid/k8s-proxy') }),
    plant: () => undefined,
  },
  'https where there is none': {
    says: /127\.0\.0\.1/,
    advises: /no TLS is spoken/,
    more: ({ port }) => ({ url: new URL(`https://127.0.0.1:${port}/k8s-proxy`) }),
    plant: () => undefined,
  },
}

for (const [name, { world: options, state = 'failed', check = 'front', says, advises, more, plant }] of Object.entries(
  faults,
)) {
  t.test(`named: ${name}`, async (t) => {
    const world = await sound(t, options)
    plant(world.front, world)
    const findings = await world.run(more?.(world))
    const found = withState(findings, state).filter((one) => one.check === check)
    t.ok(
      found.some(({ text, advice = '' }) => says.test(text) && advises.test(advice)),
      findingsText(findings),
    )
    const isReached = withState(findings, 'ok').some(({ text }) => text.endsWith('kas answers'))
    const others = withState(findings, 'ok').filter(({ text }) => !text.endsWith('kas answers'))
    if (!isReached) t.strictSame(others, [], 'nothing is said to be well that was not tried')
  })
}

t.test('an answer that only looks like one of kas is taken for none', async (t) => {
  const { front, run } = await sound(t)
  const noText = { toString: 1 }
  for (const wrong of [
    { client: noText },
    { sender: noText },
    { client: null },
    { isTrusted: 1 },
    { isForwarded: 'yes' },
    { bytes: '0' },
    { isTrusted: undefined, message: noText },
  ]) {
    front.answer = answeringAsKas(wrong)
    const [found] = await run()
    t.match(found, { state: 'failed', text: /what answers is not kas: status 200/ }, JSON.stringify(wrong))
  }
})

t.test('an authority that is not trusted, and one that is given', async (t) => {
  const world = await sound(t)
  const authority = await Authority.create('private root')
  const { certificate: cert, key } = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const server = createTlsServer({ cert, key }, (asked, response) => {
    const sent = request(
      { port: world.port, path: asked.url, headers: asked.headers, method: asked.method },
      (answer) => {
        response.writeHead(answer.statusCode ?? 0, answer.headers)
        answer.pipe(response)
      },
    )
    asked.pipe(sent)
  })
  server.on('upgrade', (asked, near) => {
    const far = connect(world.port, '127.0.0.1')
    for (const one of [near, far]) one.on('error', () => undefined)
    const lines = asked.rawHeaders.flatMap((one, i) => (i % 2 === 0 ? [`${one}: ${asked.rawHeaders[i + 1]}`] : []))
    far.write(`GET ${asked.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
    near.pipe(far).pipe(near)
  })
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}/k8s-proxy`)
  const untrusted = await world.run({ url })
  t.match(withState(untrusted, 'failed'), [
    { check: 'front', text: /127\.0\.0\.1/, advice: /give --kubernetes-api-ca-file/ },
    { check: 'certificates', text: /private root.*is not trusted here/, advice: /--kubernetes-api-ca-file/ },
  ])
  const caFile = join(world.folder, 'ca.crt')
  await writeFile(caFile, authority.certificate)
  const findings = await world.run({ url, caFile })
  t.strictSame(withState(findings, 'failed', 'note'), [], findingsText(findings))
  t.match(
    findings.find(({ check }) => check === 'certificates'),
    { state: 'ok', subject: '--kubernetes-api-url' },
  )
  await writeFile(caFile, key)
  t.match(await world.run({ url, caFile }), [{ check: 'front', state: 'failed', text: /found no certificate/ }])
})

t.test('a front that never answers is waited for no longer than bounds say', async (t) => {
  const world = await sound(t)
  const server = createTcpServer(() => undefined)
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  t.teardown(() => server.close())
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/k8s-proxy`)
  const findings = await world.run({ url, idleSeconds: 60 })
  t.match(findings, [
    { check: 'front', state: 'failed', text: /no answer within 10000 ms/, advice: /is there a way from here/ },
    { check: 'idle', state: 'skipped' },
  ])
})

t.test('with --pre, without a socket, and without the URL it says what it has not tried', async (t) => {
  const world = await sound(t)
  const pre = await world.run({ isPre: true, idleSeconds: 1 })
  t.match(pre, [
    { state: 'ok', text: /kas answers; Upgrade, long heads and bodies are not tried$/ },
    { check: 'idle', state: 'skipped', text: /--pre: no replica is asked/ },
  ])
  t.equal(pre.length, 2)
  world.front.answer = answering(401)
  t.match(await world.run({ isPre: true }), [{ state: 'failed', text: /what answers is not kas: status 401/ }, {}])
  delete world.front.answer
  world.front.change = (headers) => delete headers.authorization
  t.match(await world.run({ isPre: true }), [{ state: 'failed', text: /kas gets no Authorization header/ }, {}])
  delete world.front.change
  world.config = { ...world.config, ops: {} }
  t.match(await world.run(), [
    { state: 'ok', text: /are not tried$/ },
    { check: 'idle', state: 'skipped', text: /ops\.socket is not set/ },
  ])
  const old = await sound(t, { status: {}, isOlder: true })
  t.match(await old.run(), [
    { state: 'ok', text: /are not tried$/ },
    { check: 'idle', state: 'skipped', text: /^no stream is opened$/ },
  ])
  t.match(await world.run({ url: undefined }), [
    { check: 'front', state: 'skipped', advice: /give --kubernetes-api-url/ },
    { check: 'idle', state: 'skipped' },
  ])
  world.config = { ...world.config, agent: { ...world.config.agent, kubernetes_api: undefined } }
  t.match(await world.run(), [{ state: 'skipped', text: /does not serve kubectl/ }, { state: 'skipped' }])
})

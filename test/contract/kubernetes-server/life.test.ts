import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import t from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { CertificateFiles } from '../../../src/lib/certificate-files.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { type Cluster, clusterForward, data, echo, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { createKubernetesServer, good, startServer } from './start-server.ts'

/** Start, stop in stages, and TLS (doc/operate/operations.md "How a replica leaves"). */

type Tap = typeof t | import('tap').Test
async function setUp(t: Tap, cluster: Cluster, options: Parameters<typeof startServer>[1] = {}) {
  const started = await startServer(clusterForward(cluster), options)
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const open = async () => {
    const client = await RawClient.open(started.port)
    t.teardown(() => client.close())
    return client
  }
  return { ...started, open }
}

const long = 600_000
/** lets running requests take the whole grace periods */
const patient = new AbortController().signal

/** Answers in two parts. The test releases the second one. */
function twoParts() {
  const second = Promise.withResolvers<void>()
  const cluster: Cluster = async function* () {
    yield head(200)
    yield data('first')
    await second.promise
    yield data('second')
    yield trailer
  }
  return { cluster, finish: second.resolve }
}

async function refusesConnections(port: number): Promise<void> {
  await eventually(async () => {
    const socket = connect(port, '127.0.0.1')
    const [error] = await Promise.race([once(socket, 'error'), once(socket, 'connect').then(() => [undefined])]).catch(
      (failure: unknown) => [failure],
    )
    socket.destroy()
    if (!error) throw new Error('it still listens')
  })
}

// wire: limit.grace.listen
t.test('while leaving, answers are the last on their connections, and new ones are taken', async (t) => {
  const { server, open } = await setUp(t, echo, { listenGraceMs: long, shutdownGraceMs: long })
  const idle = await open()
  t.match(await idle.request('GET /k8s-proxy/', good).until(/}$/), /\r\nConnection: keep-alive\r\n/)
  const patience = new AbortController()
  const stopped = server.stop(patience.signal)
  const fresh = await open()
  t.match(
    await fresh.request('GET /k8s-proxy/', good).toEnd(),
    /^HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*Connection: close\r\n/,
  )
  t.match(
    await (await open()).request('GET /k8s-proxy/').toEnd(),
    /^HTTP\/1\.1 401 .+\r\n(?:.+\r\n)*Connection: close\r\n/,
  )
  t.equal(idle.ended, undefined, 'idle connections stay')
  idle.text = ''
  t.match(await idle.request('GET /k8s-proxy/', good).toEnd(), /^HTTP\/1\.1 200 /, 'and are served')
  const other = await open()
  patience.abort()
  await stopped
  await other.toEnd()
  t.pass('without patience it ends at once')
})

// wire: limit.grace.listen, limit.grace.shutdown
t.test('after the listen grace: no new connections, idle ones closed, running requests finish', async (t) => {
  const { cluster, finish } = twoParts()
  const { server, open, port } = await setUp(t, cluster, { listenGraceMs: 50, shutdownGraceMs: long })
  const idle = await open()
  await idle.request('GET /k8s-proxy/none').until(/}\n$/)
  idle.text = ''
  const running = await open()
  running.request('GET /k8s-proxy/', good)
  await running.until(/first\r\n$/)
  let stopped = false
  const stopping = server.stop(patient).then(() => {
    stopped = true
  })
  t.equal(await idle.toEnd(), '', 'closed')
  await refusesConnections(port)
  t.equal(stopped, false)
  finish()
  t.match(await running.toEnd(), /second\r\n0\r\n\r\n$/)
  t.equal(running.ended, 'end')
  await stopping
  await server.stop()
  t.pass('stop may be called again')
})

t.test('who has come before the listen grace was over is served, if the request comes in time', async (t) => {
  const waits = { listenGraceMs: 0, shutdownGraceMs: long }
  const { server, open, port } = await setUp(t, echo, { ...waits, limits: { arrivalMs: long } })
  const late = await open()
  const stopped = server.stop(patient)
  await refusesConnections(port)
  t.match(await late.request('GET /k8s-proxy/', good).toEnd(), /^HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*Connection: close\r\n/)
  await stopped

  const hasty = await setUp(t, echo, { ...waits, limits: { arrivalMs: 20 } })
  const silent = await hasty.open()
  await hasty.server.stop(patient)
  t.equal(await silent.toEnd(), '')
})

// wire: limit.grace.shutdown
t.test('after the shutdown grace, or without patience, what still runs is cut', async (t) => {
  const ended = new AbortController()
  for (const [shutdownGraceMs, patience] of [[50, patient] as const, [long, ended.signal] as const, [long] as const]) {
    const { server, open } = await setUp(t, twoParts().cluster, { listenGraceMs: 0, shutdownGraceMs })
    const running = await open()
    running.request('GET /k8s-proxy/', good)
    await running.until(/first\r\n$/)
    const stopping = server.stop(patience)
    if (patience === ended.signal) ended.abort()
    t.notMatch(await running.toEnd(), /\r\n0\r\n\r\n$/)
    await stopping
  }
})

t.test('watches end one after another over their grace, then logs are cut; all else runs on', async (t) => {
  const event = '{"type":"ADDED","object":{}}\n'
  const finish = Promise.withResolvers<void>()
  const cluster: Cluster = async function* () {
    yield head(200, [['Content-Type', ['application/json']]])
    yield data(event)
    await finish.promise
    yield trailer
  }
  const clock = new ManualClock()
  const graces = { listenGraceMs: 0, shutdownGraceMs: long, watchGraceMs: 60_000 }
  const { server, port } = await startServer(clusterForward(cluster), graces, undefined, { clock })
  t.teardown(() => server.stop(AbortSignal.abort()))
  const paths = [
    'pods?watch=1',
    'pods?watch=1&a=b',
    'pods?a=b&watch=true',
    'pods/a/log?follow=true',
    'pods/a/log',
    'pods',
  ]
  const ends: string[] = []
  const all = await Promise.all(
    paths.map(async (path) => {
      const client = await RawClient.open(port)
      t.teardown(() => client.close())
      client.request(`GET /k8s-proxy/api/v1/namespaces/a/${path}`, good)
      await client.until(/ADDED/)
      return {
        path,
        end: client.toEnd().then((text) => ends.push(`${path} ${text.endsWith('0\r\n\r\n') ? 'in order' : 'cut'}`)),
      }
    }),
  )
  const until = (count: number) => eventually(() => ends.length >= count || Promise.reject(new Error(ends.join())))
  await server.leave(patient)
  t.same(ends, [])
  for (const [ms, count] of [
    [0, 1],
    [20_000, 2],
    [20_000, 3],
  ] as const) {
    clock.advance(ms)
    await until(count)
    t.equal(ends.length, count)
  }
  t.ok(
    ends.every((end) => end.includes('watch') && end.endsWith('in order')),
    ends.join(),
  )
  clock.advance(20_000)
  await until(4)
  t.equal(ends[3], 'pods/a/log?follow=true cut')
  finish.resolve()
  await Promise.all(all.map(({ end }) => end))
  t.same(ends.slice(4).sort(), ['pods in order', 'pods/a/log in order'])
})

t.test('a followed log that has no line yet is cut with the others', async (t) => {
  const asked = Promise.withResolvers<void>()
  const silent: Cluster = async function* () {
    asked.resolve()
    await new Promise(() => undefined)
  }
  const clock = new ManualClock()
  const graces = { listenGraceMs: 0, shutdownGraceMs: long, watchGraceMs: 60_000 }
  const { server, port } = await startServer(clusterForward(silent), graces, undefined, { clock })
  t.teardown(() => server.stop(AbortSignal.abort()))
  const client = await RawClient.open(port)
  t.teardown(() => client.close())
  client.request('GET /k8s-proxy/api/v1/namespaces/a/pods/a/log?follow=true', good)
  await asked.promise
  await server.leave(patient)
  clock.advance(60_000)
  t.equal(await client.toEnd(), '')
})

t.test(
  'at the end of the shutdown grace a watch and an upgraded connection end in order, all else is cut',
  async (t) => {
    const shutdownGraceMs = 300
    const { server, open, port } = await setUp(
      t,
      async function* ({ header }) {
        if (!header.header.some(([name]) => name === 'Upgrade')) {
          yield head(200)
          yield data('{"type":"ADDED"}\n')
        } else {
          yield head(101, [['Upgrade', ['x']]])
          yield trailer
          yield encodeHttpResponse.upgradeData(Buffer.from('prompt$ '))
        }
        await new Promise(() => undefined)
      },
      { listenGraceMs: 0, shutdownGraceMs },
    )
    const [watch, list, exec] = [await open(), await open(), await open()]
    watch.request('GET /k8s-proxy/api/v1/pods?limit=5&watch=true', good)
    list.request('GET /k8s-proxy/api/v1/pods?stopwatch=true', good)
    exec.request('GET /k8s-proxy/exec', good, 'Connection: upgrade', 'Upgrade: x')
    await Promise.all([watch, list].map((client) => client.until(/ADDED"}\n\r\n$/)))
    await exec.until(/prompt\$ $/)
    const began = performance.now()
    const stopped = server.stop(patient)
    await refusesConnections(port)
    const ends = [watch, list, exec].map(async (client) => {
      const text = await client.toEnd()
      t.ok(performance.now() - began >= shutdownGraceMs, 'nothing ends before')
      return text
    })
    const [watched, listed] = await Promise.all(ends)
    t.match(watched, /ADDED"}\n\r\n0\r\n\r\n$/, 'the last chunk')
    t.notMatch(listed, /\r\n0\r\n\r\n$/, 'a list that is not whole does not look so')
    t.same([watch.ended, exec.ended], ['end', 'end'])
    await stopped
  },
)

t.test('answers behind one another are all sent while draining', async (t) => {
  const { cluster, finish } = twoParts()
  const { server, open, port } = await setUp(t, cluster, { listenGraceMs: 0, shutdownGraceMs: long })
  const client = await open()
  client.request('GET /k8s-proxy/', good).request('GET /k8s-proxy/none').request('GET /none')
  await client.until(/first\r\n$/)
  const stopping = server.stop(patient)
  await refusesConnections(port)
  finish()
  t.match(await client.toEnd(), /second\r\n0\r\n\r\nHTTP\/1\.1 401 .+HTTP\/1\.1 400 .+"code":400}\n$/s)
  await stopping
})

t.test('upgraded connections run to the shutdown grace too', async (t) => {
  const last = Promise.withResolvers<void>()
  const { server, open, port } = await setUp(
    t,
    async function* () {
      yield head(101, [['Upgrade', ['x']]])
      yield trailer
      await last.promise
      yield encodeHttpResponse.upgradeData(Buffer.from('last'))
    },
    { listenGraceMs: 0, shutdownGraceMs: long },
  )
  const client = await open()
  client.request('GET /k8s-proxy/exec', good, 'Connection: upgrade', 'Upgrade: x')
  await client.until(/\r\n\r\n$/)
  const stopping = server.stop(patient)
  await refusesConnections(port)
  last.resolve()
  t.match(await client.toEnd(), /last$/)
  await stopping
})

t.test('stop twice at once, and after a start that failed', async (t) => {
  const { server } = await setUp(t, echo)
  await Promise.all([server.stop(), server.stop()])
  t.throws(() => server.address)
  const { port } = await setUp(t, echo)
  const second = createKubernetesServer(clusterForward(echo), { listen: { host: '127.0.0.1', port } }).server
  await t.rejects(second.start(), { code: 'EADDRINUSE' })
  await second.stop()
})

t.test('TLS', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'kas-tls-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const [certificateFile, keyFile] = [join(folder, 'tls.crt'), join(folder, 'tls.key')]
  const authority = await Authority.create('test')
  const issue = async (dns: string) => {
    const { certificate, key } = await authority.issueServing({ dns: [dns], ip: ['127.0.0.1'] })
    await Promise.all([writeFile(certificateFile, certificate), writeFile(keyFile, key)])
  }
  await issue('first.example.com')
  const log = createLogger({ level: 'silent' })
  const certificate = new CertificateFiles({ log }, { certificateFile, keyFile, settleMs: 10 })
  await certificate.start()
  t.teardown(() => certificate.stop())
  const longBody = Buffer.alloc(100_000, 'x')
  const shout: Cluster = async function* ({ header, messages }) {
    if (header.header.some(([name]) => name === 'X-Long')) {
      yield head(200)
      yield data(longBody)
      return yield trailer
    }
    if (!header.header.some(([name]) => name === 'Upgrade')) {
      yield head(200, [['Content-Length', ['2']]])
      yield data('ok')
      return yield trailer
    }
    yield head(101, [['Upgrade', ['x']]])
    yield trailer
    for (;;) {
      const { done, value } = await messages.next()
      if (done) break
      if (value.kind === 'upgradeData') yield encodeHttpResponse.upgradeData(value.data)
    }
    yield encodeHttpResponse.upgradeData(Buffer.from('bye'))
  }
  const graces = { listenGraceMs: 0, shutdownGraceMs: long }
  const limits = { arrivalMs: 500 }
  const started = await startServer(clusterForward(shout), { ...graces, limits }, certificate)
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const handshake = async (ALPNProtocols?: string[]): Promise<TLSSocket> => {
    const options = { port: started.port, host: '127.0.0.1', ca: authority.certificate, allowHalfOpen: true }
    const socket = connectTls({ ...options, ...(ALPNProtocols ? { ALPNProtocols } : {}) })
    t.teardown(() => socket.destroy())
    await once(socket, 'secureConnect')
    return socket
  }

  // wire: 8154.http1
  await t.test('HTTP/1.1 alone is offered', async (t) => {
    t.equal((await handshake(['h2', 'http/1.1'])).alpnProtocol, 'http/1.1')
    t.equal((await handshake()).alpnProtocol, false)
    await t.rejects(handshake(['h2']))
  })

  await t.test('requests and upgrades, with a half-close', async (t) => {
    const client = new RawClient(await handshake())
    t.match(await client.request('GET /k8s-proxy/', good).until(/ok$/), /^HTTP\/1\.1 200 /)
    client.text = ''
    client.request('GET /k8s-proxy/exec', good, 'Connection: upgrade', 'Upgrade: x').write('hello')
    await client.until(/hello$/)
    client.socket.end('last')
    t.match(await client.toEnd(), /hellolastbye$/)
  })

  await t.test('beside many others of one agent, a caller gets long answers in pieces of 15 KiB', async (t) => {
    const chunksOf = async (client: RawClient) => {
      client.text = ''
      const answer = await client.request('GET /k8s-proxy/', good, 'X-Long: 1').until(/\r\n0\r\n\r\n$/)
      const [, body = ''] = answer.split(/\r\n\r\n(.*)/s)
      const lines = body.split('\r\n')
      t.equal(lines.filter((line) => line.startsWith('x')).join(''), longBody.toString())
      return lines.filter((line) => /^[0-9a-f]+$/.test(line)).map((line) => Number.parseInt(line, 16))
    }
    const alone = new RawClient(await handshake())
    t.same(await chunksOf(alone), [100_000, 0])
    const others = []
    for (let i = 0; i < 32; i++) {
      const other = new RawClient(await handshake())
      await other.request('GET /k8s-proxy/', good).until(/ok$/)
      others.push(other)
    }
    const pieces = await chunksOf(alone)
    t.same(pieces, [...Array(6).fill(15 * 1024), 100_000 - 6 * 15 * 1024, 0])
    for (const { socket } of others) socket.destroy()
    await eventually(async () => (await chunksOf(alone)).length === 2)
  })

  await t.test('a new certificate is shown to new connections', async (t) => {
    t.match((await handshake()).getPeerCertificate().subjectaltname, /first\.example\.com/)
    await issue('second.example.com')
    await eventually(async () => {
      const socket = await handshake()
      const names = socket.getPeerCertificate().subjectaltname ?? ''
      socket.destroy()
      if (!names.includes('second.example.com')) throw new Error(names)
    })
    t.match((await handshake(['h2', 'http/1.1'])).alpnProtocol, 'http/1.1')
  })

  await t.test('plain HTTP and silent connections cost nothing, and stop ends them', async (t) => {
    const plain = await RawClient.open(started.port)
    plain.request('GET /k8s-proxy/', good)
    await plain.toEnd()
    const idle = new RawClient(await handshake())
    const silent = await RawClient.open(started.port)
    const late = connect(started.port, '127.0.0.1')
    t.teardown(() => late.destroy())
    await once(late, 'connect')
    const stopped = started.server.stop(patient)
    await refusesConnections(started.port)
    const secured = connectTls({ socket: late, host: '127.0.0.1', ca: authority.certificate })
    await once(secured, 'secureConnect')
    const served = await new RawClient(secured).request('GET /k8s-proxy/', good).toEnd()
    t.match(served, /ok$/, 'TLS that is agreed on meanwhile')
    await stopped
    await Promise.all([idle.toEnd(), silent.toEnd()])
    t.equal(idle.text + silent.text, '')
  })
})

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { dialReplica } from '../../../src/kas/peers/dial-replica.ts'
import {
  maxStrangerCalls,
  type ReplicasServerOptions,
  strangerBounds,
} from '../../../src/kas/servers/replicas/replicas-server.ts'
import { Code } from '../../../src/lib/errors.ts'
import type { Handler } from '../../../src/proto/grpc/server-stream.ts'
import { eventually } from '../../support/eventually.ts'
import { startReplicasServer } from '../../support/replicas-server.ts'

/**
 * Peers that freeze or are slow during a TLS handshake. Their kernel has connected, and they send nothing or send
 * later.
 */

interface Setting {
  readonly handshakeMs?: number
  readonly hold?: Handler
  readonly isKnown?: () => boolean
  readonly strangers?: ReplicasServerOptions['strangers']
  /** called for each call that arrives */
  readonly started?: () => void
}

const idle: Handler = async () => undefined

async function startServer(
  t: Test,
  {
    handshakeMs = 60_000,
    hold = idle,
    isKnown = () => true,
    strangers: bounds = {},
    started = () => undefined,
  }: Setting = {},
) {
  const { server, identity, strangers } = await startReplicasServer(t, {
    components: { isKnown, methods: { '/kas.Test/Hold': hold }, events: { started } },
    options: { handshakeMs, strangers: bounds },
  })
  const { port } = server.address
  const { publicKeyHash } = identity
  const dial = async () => {
    const target = { address: `127.0.0.1:${port}`, publicKeyHash, identity }
    const session = await dialReplica(target, new AbortController().signal)
    t.teardown(() => session.destroy())
    return session
  }
  /** Connects and sends nothing. */
  const connectSilently = async (localAddress = '127.0.0.1') => {
    const socket = connect({ port, host: '127.0.0.1', localAddress })
    t.teardown(() => socket.destroy())
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    return { socket, closed: new Promise<void>((resolve) => socket.once('close', () => resolve())) }
  }
  return { server, identity, strangers, dial, connectSilently }
}

t.test('stop does not wait for a handshake that never ends', { timeout: 10_000 }, async (t) => {
  const { server, dial, connectSilently } = await startServer(t)
  const { socket, closed } = await connectSilently()
  await dial() // the server accepts in order, so it has the silent connection too
  const stopped = server.stop()
  socket.resume()
  await Promise.all([stopped, closed])
  t.pass('and the silent one is ended')
})

t.test('nobody comes in while the server stops', { timeout: 10_000 }, async (t) => {
  const began = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const hold = () => {
    began.resolve()
    return release.promise
  }
  const { server, identity, dial, connectSilently } = await startServer(t, { hold })
  const { socket } = await connectSilently()
  const session = await dial()
  const running = session.open({ method: '/kas.Test/Hold' })
  await began.promise
  const stopped = server.stop(new AbortController().signal)
  t.equal(await handshake(socket, identity), 'refused')
  release.resolve()
  t.notOk((await running.done).error, 'what runs is not cut')
  await stopped
})

t.test('silent connections do not keep replicas out for longer than a handshake may take', async (t) => {
  const { strangers, dial, connectSilently } = await startServer(t, { handshakeMs: 200 })
  const silent = await Promise.all(Array.from({ length: strangerBounds.maxIdle }, () => connectSilently()))
  for (const { socket } of silent) socket.resume()
  await Promise.all(silent.map(({ closed }) => closed))
  await t.resolves(dial())
  t.equal(strangers.count, silent.length, 'they are counted')
})

t.test('strangers of one address keep nobody else out', async (t) => {
  const { strangers, dial, connectSilently } = await startServer(t)
  const { maxIdle, maxIdlePerAddress } = strangerBounds
  const silent = await Promise.all(Array.from({ length: maxIdle }, () => connectSilently('127.0.0.2')))
  for (const { socket } of silent) socket.resume()
  await t.resolves(dial())
  // several sockets listen: what came before may be accepted later
  await eventually(() => strangers.count === maxIdle - maxIdlePerAddress)
})

t.test('the longest silent of an address makes room for a replica behind it', async (t) => {
  const { strangers, dial, connectSilently } = await startServer(t, { strangers: { graceMs: 0 } })
  const silent = []
  for (let i = 0; i < strangerBounds.maxIdlePerAddress; i++) silent.push(await connectSilently())
  for (const { socket } of silent) socket.resume()
  const [first] = silent
  await Promise.all([dial(), first?.closed])
  t.equal(strangers.count, 1)
})

t.test('a stranger that calls and calls is ended before it costs anything', { timeout: 10_000 }, async (t) => {
  let calls = 0
  const { strangers, dial } = await startServer(t, { isKnown: () => false, started: () => void calls++ })
  const session = await dial()
  const answers = Array.from({ length: 10 * maxStrangerCalls }, () => session.open({ method: '/kas.Test/Hold' }).done)
  for (const { error } of await Promise.all(answers)) t.ok(error)
  t.equal(calls, maxStrangerCalls + 1, 'what has come behind is not begun')
  t.equal(strangers.count, 1)
})

t.test('a replica that calls before its row is there stays connected', { timeout: 10_000 }, async (t) => {
  let isKnown = false
  const { strangers, dial } = await startServer(t, { isKnown: () => isKnown })
  const session = await dial()
  const call = () => session.open({ method: '/kas.Test/Hold' }).done
  for (const { error } of await Promise.all(Array.from({ length: maxStrangerCalls }, call))) {
    t.match(error, { spec: { code: 'STATUS', grpc: Code.UNAUTHENTICATED } })
  }
  isKnown = true
  for (const { error } of await Promise.all(Array.from({ length: 2 * maxStrangerCalls }, call))) t.notOk(error)
  t.equal(strangers.count, 0)
})

t.test('a replica whose row comes late has no place of a stranger any more', async (t) => {
  let known = false
  const { strangers, dial, connectSilently } = await startServer(t, {
    isKnown: () => known,
    strangers: { maxIdlePerAddress: 1, graceMs: 0 },
  })
  const session = await dial()
  const call = async () => (await session.open({ method: '/kas.Test/Hold' }).done).error
  t.ok(await call())
  known = true
  t.notOk(await call())
  const [first] = [await connectSilently(), await connectSilently()]
  first.socket.resume()
  await first.closed
  t.notOk(await call(), 'it makes no room')
  t.equal(strangers.count, 1)
})

async function handshake(socket: Socket, identity: { certificatePem: string; keyPem: string }): Promise<string> {
  const { certificatePem: cert, keyPem: key } = identity
  const tls = connectTls({ socket, cert, key, rejectUnauthorized: false, ALPNProtocols: ['h2'] })
  const { promise, resolve } = Promise.withResolvers<string>()
  tls.once('secureConnect', () => resolve('taken'))
  tls.once('error', () => resolve('refused'))
  tls.once('close', () => resolve('refused'))
  return promise
}

import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import type { SessionLimits } from '../../../src/proto/grpc/limits.ts'
import { serveOurs } from './ours.ts'
import { bytes, collect, type TestHandler, text } from './sides.ts'

/**
 * 5,000 cancelled calls next to one long call. The guard of node:http2 is raised for known peers and kept for others.
 */

t.setTimeout(60_000)
const cancels = 5000

interface Ground {
  readonly session: ClientSession
  /** `begun`: calls whose handler began; `left`: those of them whose handler saw the caller leave */
  readonly seen: { begun: number; left: number }
  readonly allLeft: Promise<void>
}

async function ground(t: Test, limits: Partial<SessionLimits>): Promise<Ground> {
  const seen = { begun: 0, left: 0 }
  const { promise: allLeft, resolve } = Promise.withResolvers<void>()
  const echo: TestHandler = async ({ messages, send }) => {
    for await (const message of messages) await send(message)
    return {}
  }
  const hang: TestHandler = async ({ left, sendMetadata }) => {
    seen.begun++
    sendMetadata({})
    await left
    if (++seen.left === cancels) resolve()
    return {}
  }
  const server = await serveOurs({ '/test.Contract/Echo': echo, '/test.Contract/Hang': hang }, limits)
  t.teardown(() => server.close())
  const socket = connect({ port: server.port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  const session = ClientSession.over(socket, { authority: 'test', scheme: 'http' })
  t.teardown(() => session.destroy())
  return { session, seen, allLeft }
}

t.test('with the limits raised the long call survives, and every handler hears of its cancel', async (t) => {
  const { session, seen, allLeft } = await ground(t, { streamResetBurst: 20_000, streamResetRate: 20_000 })
  const long = session.open({ method: '/test.Contract/Echo' })
  const answers = long.messages[Symbol.asyncIterator]()
  await long.send(bytes('before'))
  t.equal(text((await answers.next()).value), 'before')

  for (let i = 0; i < cancels; i += 500) {
    const calls = Array.from({ length: 500 }, () => session.open({ method: '/test.Contract/Hang' }))
    await Promise.all(calls.map((call) => call.metadata))
    for (const call of calls) call.cancel()
    await Promise.all(calls.map((call) => call.done))
  }
  await allLeft
  t.equal(seen.begun, cancels)

  await long.send(bytes('after'))
  t.equal(text((await answers.next()).value), 'after')
  long.end()
  t.ok((await answers.next()).done)
  t.equal((await long.done).error, undefined)
  t.notOk(session.draining)
})

t.test('with the default guard the connection ends, and the long call with it', async (t) => {
  const { session, seen } = await ground(t, {})
  const long = session.open({ method: '/test.Contract/Echo' })
  void long.send(bytes('before'))
  for (let i = 0; i < cancels && !session.draining; i += 500) {
    const calls = Array.from({ length: 500 }, () => session.open({ method: '/test.Contract/Hang' }))
    await Promise.all(calls.map((call) => call.metadata))
    for (const call of calls) call.cancel()
    await Promise.all(calls.map((call) => call.done))
    await Promise.race([session.ping().catch(() => 0), session.closed])
  }
  await session.closed
  await collect(long.messages)
  t.match((await long.done).error?.code, /TUNNEL_LOST|STATUS/)
  t.ok(seen.begun < cancels, `${seen.begun} calls came before the end`)
})

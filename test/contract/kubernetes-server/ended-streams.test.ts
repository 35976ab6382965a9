import { once } from 'node:events'
import { request } from 'node:http'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { serverFrame } from '../../../src/kas/servers/kubernetes/websocket/server-frames.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { webSocketFrames } from '../../support/websocket-frames.ts'
import { clusterForward, head, trailer } from './fake-cluster.ts'
import { startServer } from './start-server.ts'

/** A stream into a pod gets the reason of its end: the replica's shutdown grace is over, or the agent is lost. */

const patient = new AbortController().signal
const upgrades = {
  webSocket: { upgrade: 'websocket', key: 'Sec-Websocket-Protocol', protocol: 'v5.channel.k8s.io' },
  spdy: { upgrade: 'SPDY/3.1', key: 'X-Stream-Protocol-Version', protocol: 'v4.channel.k8s.io' },
  portForward: { upgrade: 'SPDY/3.1', key: 'X-Stream-Protocol-Version', protocol: 'portforward.k8s.io' },
  other: { upgrade: 'websocket', key: 'Sec-Websocket-Protocol', protocol: 'SPDY/3.1+portforward.k8s.io' },
}
type Upgrade = (typeof upgrades)[keyof typeof upgrades]
/** cause of the end */
type Way = 'stop' | 'lost'

/** @returns all bytes that the client gets after the 101, and the metrics of the call */
async function ended(t: Test, { upgrade, key, protocol }: Upgrade, way: Way, before: Uint8Array) {
  const lost = Promise.withResolvers<void>()
  const cluster = clusterForward(async function* () {
    yield head(
      101,
      [
        ['Upgrade', [upgrade]],
        ['Connection', ['Upgrade']],
        [key, [protocol]],
      ],
      'Switching Protocols',
    )
    yield trailer
    yield encodeHttpResponse.upgradeData(before)
    await lost.promise
    throw new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })
  })
  const { server, port, count } = await startServer(cluster, { listenGraceMs: 0, shutdownGraceMs: 20 })
  t.teardown(() => server.stop(AbortSignal.abort()))
  const headers = { authorization: 'Bearer ci:42:good', connection: 'Upgrade', upgrade }
  const path = '/k8s-proxy/api/v1/namespaces/a/pods/b/exec?command=sh'
  const asked = request({ port, host: '127.0.0.1', path, headers }).end()
  t.teardown(() => asked.destroy())
  const [, socket, first] = (await once(asked, 'upgrade')) as [unknown, Socket, Buffer]
  let got = first
  socket.on('data', (chunk) => {
    got = Buffer.concat([got, chunk])
  })
  while (got.length < before.length) await once(socket, 'data')
  const end = once(socket, 'end')
  const stopped = way === 'stop' ? server.stop(patient) : lost.resolve()
  await end
  socket.end()
  await stopped
  return { got, lostCount: await count('TUNNEL_LOST') }
}

const words = {
  stop: /^GitLab Agent Server: .*shutting down/i,
  lost: /^GitLab Agent Server: .*connection of the agent was lost$/,
}
const closings = { stop: 1001, lost: 1011 }

for (const way of ['stop', 'lost'] as const) {
  const status = { kind: 'Status', status: 'Failure', message: words[way] }

  t.test(`${way}: an exec over WebSocket has the reason on the channel of errors`, async (t) => {
    const { got, lostCount } = await ended(t, upgrades.webSocket, way, serverFrame(2, Buffer.from('\x01one')))
    const [one, error, close, ...more] = webSocketFrames(got)
    t.equal(one?.payload.toString(), '\x01one')
    t.equal(error?.payload[0], 3)
    t.match(JSON.parse(String(error?.payload.subarray(1))), status)
    t.equal(close?.payload.readUInt16BE(0), 1000, 'else kubectl reads no error')
    t.same(more, [])
    t.equal(lostCount, 0, 'it is no call that failed')
  })

  t.test(`${way}: an exec by SPDY has it on its first stream`, async (t) => {
    const output = Buffer.concat([Buffer.of(0, 0, 0, 5, 0, 0, 0, 3), Buffer.from('one')])
    const { got } = await ended(t, upgrades.spdy, way, output)
    const last = got.subarray(output.length)
    t.same(last.subarray(0, 5), Buffer.of(0, 0, 0, 1, 1), 'data of stream 1, and its end')
    t.match(JSON.parse(String(last.subarray(8))), status)
  })

  t.test(`${way}: any other WebSocket is closed with a code and words, a port-forward by SPDY without`, async (t) => {
    const { got } = await ended(t, upgrades.other, way, serverFrame(2, Buffer.from('one')))
    const [, close] = webSocketFrames(got)
    t.equal(close?.opcode, 8)
    t.equal(close?.payload.readUInt16BE(0), closings[way])
    const output = Buffer.of(0, 0, 0, 5, 0, 0, 0, 0)
    t.same((await ended(t, upgrades.portForward, way, output)).got, output)
  })
}

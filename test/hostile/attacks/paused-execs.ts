import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { opcodes, serverFrame } from '../../../src/kas/servers/kubernetes/websocket/server-frames.ts'
import { abortable } from '../../../src/lib/signals.ts'
import type { HttpResponseHeader } from '../../../src/proto/http/http-message.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import type { FakeTunnel } from '../../support/fake-agent.ts'
import type { Attack } from '../attack.ts'
import { EvilAgent } from '../evil-agent.ts'
import { dial } from '../stage.ts'

interface Size {
  readonly clients: number
}

const pod = '/api/v1/namespaces/default/pods/p'
const exec = [
  `GET ${pod}/exec?command=yes&stdout=true`,
  'Upgrade: websocket',
  'Sec-WebSocket-Key: a',
  'Sec-WebSocket-Version: 13',
]
const portForward = [
  `POST ${pod}/portforward`,
  'Upgrade: SPDY/3.1',
  'X-Stream-Protocol-Version: portforward.k8s.io',
  'Content-Length: 0',
]

const frame = encodeHttpResponse.upgradeData(serverFrame(opcodes.binary, Buffer.alloc(32 * 1024, 1)))
const frames = 64

const switching = (header: HttpResponseHeader['header']) =>
  encodeHttpResponse.header({ statusCode: 101, status: '101 Switching Protocols', header })
const toWebSocket = switching([
  ['Connection', ['Upgrade']],
  ['Upgrade', ['websocket']],
  ['Sec-Websocket-Protocol', ['v5.channel.k8s.io']],
])

export const pausedExecs: Attack<Size> = {
  name: 'paused-execs',
  what: 'one user has hundreds of execs and port-forwards, and reads none of them',
  bounds: { slowdown: 5, moreMib: 96 },
  cheap: { clients: 60 },
  full: { clients: 500 },
  async play(stage, { clients }, signal) {
    const answer = (tunnel: FakeTunnel) => {
      tunnel.send(encodeConnectRequest.header({}))
      tunnel.message(toWebSocket)
      tunnel.message(encodeHttpResponse.trailer)
      for (let i = 0; i < frames; i++) tunnel.message(frame)
    }
    const agent = await EvilAgent.start(stage, { at: stage.holder, tunnels: clients, answer, answersAt: 'requestInfo' })
    const sockets: TLSSocket[] = []
    const end = async () => {
      for (const socket of sockets) socket.destroy()
      agent.close()
    }
    try {
      for (let i = 0; i < clients; i++) {
        const socket = dial(stage.ca, stage.entry.kubernetes)
        sockets.push(socket)
        await once(socket, 'secureConnect', { signal })
        const [line, ...headers] = i % 2 === 0 ? exec : portForward
        const all = [`${line} HTTP/1.1`, 'Host: kas', 'Connection: Upgrade', ...headers]
        socket.write(`${all.join('\r\n')}\r\nAuthorization: Bearer ${stage.evil.userCredential}\r\n\r\n`)
        await abortable(once(socket, 'readable'), signal)
        const began = String(socket.read(12))
        if (began !== 'HTTP/1.1 101') throw new Error(`client ${i} was answered ${began}`)
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: '', end }
  },
}

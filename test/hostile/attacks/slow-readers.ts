import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { abortable } from '../../../src/lib/signals.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import type { FakeTunnel } from '../../support/fake-agent.ts'
import type { Attack } from '../attack.ts'
import { EvilAgent } from '../evil-agent.ts'
import { dial } from '../stage.ts'

interface Size {
  readonly readers: number
}

const chunk = encodeHttpResponse.data(Buffer.alloc(32 * 1024))
const chunks = 64

export const slowReaders: Attack<Size> = {
  name: 'slow-readers',
  what: 'hundreds of callers that read nothing of long answers, which pass a link',
  bounds: { slowdown: 5, moreMib: 96 },
  cheap: { readers: 50 },
  full: { readers: 400 },
  async play(stage, { readers }, signal) {
    const answer = (tunnel: FakeTunnel) => {
      tunnel.send(encodeConnectRequest.header({}))
      tunnel.message(encodeHttpResponse.header({ statusCode: 200, status: '200 OK', header: [] }))
      for (let i = 0; i < chunks; i++) tunnel.message(chunk)
    }
    const agent = await EvilAgent.start(stage, { at: stage.holder, tunnels: readers, answer })
    const sockets: TLSSocket[] = []
    const end = async () => {
      for (const socket of sockets) socket.destroy()
      agent.close()
    }
    try {
      for (let i = 0; i < readers; i++) {
        const socket = dial(stage.ca, stage.entry.kubernetes)
        sockets.push(socket)
        await once(socket, 'secureConnect', { signal })
        socket.write(`GET /x HTTP/1.1\r\nHost: kas\r\nAuthorization: Bearer ${stage.evil.userCredential}\r\n\r\n`)
        await abortable(once(socket, 'readable'), signal)
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: '', end }
  },
}

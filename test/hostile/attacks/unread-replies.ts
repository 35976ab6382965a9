import { once } from 'node:events'
import { abortable } from '../../../src/lib/signals.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import type { FakeTunnel } from '../../support/fake-agent.ts'
import type { Attack } from '../attack.ts'
import { EvilAgent } from '../evil-agent.ts'
import { dial, EvilUser, told } from '../stage.ts'

interface Size {
  /** more readers than there are unread replies allowed at once: leftover counts would add up */
  readonly readers: number
}

const chunk = encodeHttpResponse.data(Buffer.alloc(32 * 1024))
const chunks = 64
const tunnels = 4

export const unreadReplies: Attack<Size> = {
  name: 'unread-replies',
  what: 'callers that leave in the midst of a long answer, one after another, and then one who reads his',
  cheap: { readers: 100 },
  full: { readers: 400 },
  async play(stage, { readers }, signal) {
    let isWhole = false
    const answer = (tunnel: FakeTunnel) => {
      tunnel.send(encodeConnectRequest.header({}))
      tunnel.message(encodeHttpResponse.header({ statusCode: 200, status: '200 OK', header: [] }))
      for (let i = 0; i < chunks; i++) tunnel.message(chunk)
      if (!isWhole) return
      tunnel.message(encodeHttpResponse.trailer)
      tunnel.send(encodeConnectRequest.trailer({}))
      tunnel.stream.end()
    }
    const agent = await EvilAgent.start(stage, { at: stage.holder, tunnels, answer })
    const user = new EvilUser(stage)
    try {
      for (let i = 0; i < readers; i++) {
        const socket = dial(stage.ca, stage.entry.kubernetes)
        await once(socket, 'secureConnect', { signal })
        socket.write(`GET /x HTTP/1.1\r\nHost: kas\r\nAuthorization: Bearer ${stage.evil.userCredential}\r\n\r\n`)
        await abortable(once(socket, 'readable'), signal)
        const began = String(socket.read())
        socket.destroy()
        if (!began.startsWith('HTTP/1.1 200')) throw new Error(`reader ${i} was told ${began.slice(0, 300)}`)
      }
      isWhole = true
      const read = await user.get(stage.entry, '/x', { signal })
      if (read.status !== 200 || read.body.length !== chunks * 32 * 1024) throw new Error(`who reads: ${told(read)}`)
    } finally {
      user.close()
      agent.close()
    }
    return { refusal: '', end: async () => undefined }
  },
}

import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import type { Attack } from '../attack.ts'
import { dial } from '../stage.ts'

interface Size {
  readonly calls: number
}

/** kas accepts 8 on one connection; each may wait for 20 s, the attack ends earlier */
const pipelined = 8
const headerBytes = 1000

export const waitingCalls: Attack<Size> = {
  name: 'waiting-calls',
  what: 'thousands of calls to an agent that is not connected',
  cheap: { calls: 1000 },
  full: { calls: 5000 },
  async play(stage, { calls }, signal) {
    const lines = ['GET /version HTTP/1.1', 'Host: kas', `Authorization: Bearer ${stage.evil.userCredential}`]
    const head = `${lines.join('\r\n')}\r\nX-Long: ${'x'.repeat(headerBytes)}\r\n\r\n`
    const sockets: TLSSocket[] = []
    const end = async () => {
      for (const socket of sockets) socket.destroy()
    }
    try {
      for (let i = 0; i < calls; i += pipelined) {
        const socket = dial(stage.ca, stage.entry.kubernetes)
        sockets.push(socket)
        await once(socket, 'secureConnect', { signal })
        socket.write(head.repeat(pipelined))
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: '', end }
  },
}

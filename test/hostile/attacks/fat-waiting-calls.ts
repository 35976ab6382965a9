import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import type { Attack } from '../attack.ts'
import { EvilAgent } from '../evil-agent.ts'
import { dial, headOf } from '../stage.ts'

interface Size {
  readonly connections: number
}

/** kas accepts 8 on one connection */
const pipelined = 8
/** the longest headers that do not count against strangers' memory */
const headerBytes = 60 * 1024

export const fatWaitingCalls: Attack<Size> = {
  name: 'fat-waiting-calls',
  what: 'calls with heads of 60 KiB, to an agent that has no tunnel left',
  cheap: { connections: 60 },
  full: { connections: 500 },
  async play(stage, { connections }, signal) {
    const agent = await EvilAgent.start(stage, { at: stage.holder, tunnels: 1, answer: () => undefined })
    const head = headOf('GET /version', stage.evil.userCredential, `X-Long: ${'x'.repeat(headerBytes)}`)
    const sockets: TLSSocket[] = []
    const end = async () => {
      agent.close()
      for (const socket of sockets) socket.destroy()
    }
    try {
      for (let i = 0; i < connections; i++) {
        const socket = dial(stage.ca, stage.holder.kubernetes)
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

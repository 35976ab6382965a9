import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { abortable } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dial, fleetOf, headOf } from '../stage.ts'

interface Size {
  readonly connections: number
}

const dialsAtOnce = 10

/** Connections of one tenant's user, who calls agents in turn. None of the agents is connected. */
export const idleCallers: Attack<Size> = {
  name: 'idle-callers',
  what: 'thousands of connections that are kept after an answer, for agents that are not connected',
  bounds: { moreMib: 128 },
  cheap: { connections: 200 },
  full: { connections: 5000 },
  async play(stage, { connections }, signal) {
    const { tenant, userToken } = fleetOf(stage)
    const sockets: TLSSocket[] = []
    const open = async (i: number) => {
      const { id } = tenant[i % tenant.length] as { id: number }
      const socket = dial(stage.ca, stage.entry.kubernetes)
      sockets.push(socket)
      await once(socket, 'secureConnect', { signal })
      socket.write(headOf('GET /gitops/state', `pat:${id}:${userToken}`))
      await abortable(Promise.race([once(socket, 'data'), once(socket, 'close')]), signal)
    }
    const end = async () => {
      for (const socket of sockets) socket.destroy()
    }
    try {
      for (let i = 0; i < connections; i += dialsAtOnce)
        await Promise.all(Array.from({ length: Math.min(dialsAtOnce, connections - i) }, (_, at) => open(i + at)))
      return { refusal: '', end }
    } catch (error) {
      await end()
      throw error
    }
  },
}

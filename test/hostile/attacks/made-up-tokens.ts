import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { abortable } from '../../../src/lib/signals.ts'
import { connectMethod } from '../../../src/proto/reverse-tunnel.ts'
import type { Attack } from '../attack.ts'
import { dial, dialAgent, type Stage, textOf } from '../stage.ts'

interface Size {
  /** tokens of agents, a tunnel each */
  readonly agentTokens: number
  /** tokens of users, a call each */
  readonly userTokens: number
}

/** calls that kas accepts at once on one connection */
const pipelined = 4
/** streams: fewer than kas accepts */
const perConnection = 500
const goodAgentId = 42

const madeUp = (prefix: string) => prefix + randomBytes(15).toString('base64url')

/** Makes so many calls at once as users that do not exist. */
async function call(stage: Stage, count: number): Promise<{ socket: TLSSocket; status: Promise<string> }> {
  const socket = dial(stage.ca, stage.entry.kubernetes)
  await once(socket, 'secureConnect')
  const heads = Array.from({ length: count }, () => {
    const credential = `pat:${goodAgentId}:${madeUp('glpat-')}`
    return `GET /version HTTP/1.1\r\nHost: kas\r\nAuthorization: Bearer ${credential}\r\n\r\n`
  })
  socket.write(heads.join(''))
  const status = once(socket, 'data').then(([data]) => textOf(String(data)))
  status.catch(() => undefined) // it was cut, or the attack is over
  return { socket, status }
}

export const madeUpTokens: Attack<Size> = {
  name: 'made-up-tokens',
  what: 'thousands of tokens that a slow GitLab does not know, of agents and of users',
  refusal: /^(401|429|503) /,
  gitlab: true,
  bounds: { slowdown: 5, moreMib: 96 },
  cheap: { agentTokens: 1500, userTokens: 1000 },
  full: { agentTokens: 10_000, userTokens: 3000 },
  async play(stage, { agentTokens, userTokens }, signal) {
    const connections = Array.from({ length: Math.ceil(agentTokens / perConnection) }, () =>
      dialAgent(stage, stage.holder),
    )
    const agents = await Promise.all(connections)
    for (let i = 0; i < agentTokens; i++) {
      const metadata = { authorization: [`Bearer ${madeUp('glagent-')}`] }
      agents[i % agents.length]?.session.open({ method: connectMethod, metadata })
    }
    const asked = await Promise.allSettled(
      Array.from({ length: Math.ceil(userTokens / pipelined) }, () => call(stage, pipelined)),
    )
    const calls = asked.flatMap((each) => (each.status === 'fulfilled' ? each.value : [])) // kas had no room for others
    const end = async () => {
      for (const agent of agents) agent.close()
      for (const { socket } of calls) socket.destroy()
    }
    try {
      return { refusal: await abortable(Promise.any(calls.map(({ status }) => status)), signal), end }
    } catch (error) {
      await end()
      throw error
    }
  },
}

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { abortable, delay } from '../../../src/lib/signals.ts'
import { connectMethod } from '../../../src/proto/reverse-tunnel.ts'
import { FakeAgent } from '../../support/fake-agent.ts'
import type { Attack } from '../attack.ts'
import { dial, type Stage } from '../stage.ts'

interface Size {
  /** connections at once, over all addresses */
  readonly connections: number
}

/** the attacker's other addresses, beside the one that counts its other calls */
const addresses = ['127.0.0.66', '127.0.0.67', '127.0.0.68', '127.0.0.69']
/** more than kas accepts of a stranger at first */
const callsAtOnce = 32
/** pause of each between two connections; without it the test measures only a busy machine. ms */
const restMs = 50

/** Makes one connection, with as many calls as it may have, until they are refused. */
async function knock(
  { ca, holder }: Stage,
  { address, refused, signal }: { address: string; refused: (text: string) => void; signal: AbortSignal },
): Promise<void> {
  const socket = dial(ca, holder.agents, ['h2'], address)
  const hangUp = () => void socket.destroy()
  signal.addEventListener('abort', hangUp)
  try {
    await once(socket, 'secureConnect', { signal })
    const { session } = new FakeAgent(socket, {})
    const calls = Array.from({ length: callsAtOnce }, async () => {
      const metadata = { authorization: [`Bearer glagent-${randomBytes(15).toString('base64url')}`] }
      const { error } = await session.open({ method: connectMethod, metadata }).done
      if (error && error.code !== 'TUNNEL_LOST') refused(error.message) // else kas had no room, or it is over
    })
    await Promise.all(calls)
  } catch {
    // kas had no room for it
  } finally {
    signal.removeEventListener('abort', hangUp)
    socket.destroy()
  }
}

export const knocking: Attack<Size> = {
  name: 'knocking',
  what: 'strangers of four addresses who connect, call with made-up tokens and come again, without end',
  refusal: /unauthenticated/,
  counter: 'kas_agents_refused_total{reason="unauthenticated"}',
  bounds: { slowdown: 4 },
  cheap: { connections: 40 },
  full: { connections: 200 },
  async play(stage, { connections }, signal) {
    const refusals = new Set<string>()
    const heard = Promise.withResolvers<void>()
    const ended = new AbortController()
    const knocking = Array.from({ length: connections }, async (_, i) => {
      const address = addresses[i % addresses.length] as string
      while (!ended.signal.aborted) {
        const refused = (text: string) => {
          refusals.add(text)
          heard.resolve()
        }
        await knock(stage, { address, refused, signal: ended.signal })
        await delay(restMs, ended.signal).catch(() => undefined) // it is over
      }
    })
    const end = async () => {
      ended.abort()
      await Promise.all(knocking)
    }
    try {
      await abortable(heard.promise, signal)
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: [...refusals].join('; '), end }
  },
}

import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { abortable } from '../../../src/lib/signals.ts'
import { viewsProtocol } from '../../../src/proto/views-json.ts'
import type { Attack } from '../attack.ts'
import { dial, type Stage, textFrame, textOf } from '../stage.ts'

interface Size {
  /** WebSockets, each with more views than it may have */
  readonly webSockets: number
}

const dialsAtOnce = 20
const viewsOfEach = 25

/** Opens one WebSocket and reads nothing after its answer. @returns that answer */
async function open({ ca, holder, evil }: Stage, sockets: TLSSocket[], signal: AbortSignal): Promise<string> {
  const [, agent] = evil.userCredential.split(':')
  const socket = dial(ca, holder.kubernetes)
  sockets.push(socket)
  await once(socket, 'secureConnect', { signal })
  const head = [
    'GET /views HTTP/1.1',
    'Host: kas',
    `Authorization: Bearer ${evil.userCredential}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    `Sec-WebSocket-Protocol: ${viewsProtocol}`,
    '\r\n',
  ].join('\r\n')
  socket.write(head)
  const closed = once(socket, 'close').then(() => [''])
  const [answer] = await abortable(Promise.race([once(socket, 'data'), closed]), signal)
  socket.pause()
  for (let id = 1; id <= viewsOfEach; id++) {
    socket.write(textFrame(JSON.stringify({ type: 'open', id, agent, view: 'tree' })))
  }
  return textOf(String(answer))
}

export const unreadViews: Attack<Size> = {
  name: 'unread-views',
  what: 'hundreds of WebSockets full of views of one agent, of which nothing is read',
  refusal: /^429 /,
  counter: 'kas_kubernetes_errors_total{code="TOO_MANY_STREAMS"}',
  cheap: { webSockets: 520 },
  full: { webSockets: 1000 },
  async play(stage, { webSockets }, signal) {
    const sockets: TLSSocket[] = []
    const end = async () => {
      for (const socket of sockets) socket.destroy()
    }
    let refusal = ''
    try {
      while (sockets.length < webSockets) {
        const count = Math.min(dialsAtOnce, webSockets - sockets.length)
        const answers = await Promise.all(Array.from({ length: count }, () => open(stage, sockets, signal)))
        refusal ||= answers.find((answer) => !answer.startsWith('101 ')) ?? ''
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal, end }
  },
}

import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { abortable } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dial } from '../stage.ts'

interface Size {
  readonly connections: number
}

/** the longest that is taken */
const messageBytes = 10 * 1024 * 1024

const upgrade = [
  'GET /-/kubernetes-agent/ HTTP/1.1',
  'Host: kas',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  'Sec-WebSocket-Protocol: ws-tunnel',
  '\r\n',
].join('\r\n')

export const halfWebSockets: Attack<Size> = {
  name: 'half-websockets',
  what: 'long WebSocket messages of strangers, each without its last byte',
  refusal: /^ended$/,
  counter: 'kas_agents_refused_total{reason="too_much_unread"}',
  cheap: { connections: 16 },
  full: { connections: 60 },
  async play(stage, { connections }, signal) {
    const sockets: TLSSocket[] = []
    let ended = 0
    const frame = Buffer.alloc(14 + messageBytes - 1)
    frame[0] = 0x82
    frame[1] = 0xff
    frame.writeBigUInt64BE(BigInt(messageBytes), 2)
    for (let i = 0; i < connections; i++) {
      const socket = dial(stage.ca, stage.holder.agents, ['http/1.1'])
      sockets.push(socket)
      await once(socket, 'secureConnect', { signal })
      const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
      socket.on('error', () => undefined) // a reset, told by 'close'
      socket.write(upgrade)
      await abortable(Promise.race([new Promise((resolve) => socket.once('data', resolve)), closed]), signal)
      await abortable(Promise.race([new Promise((resolve) => socket.write(frame, resolve)), closed]), signal)
      void closed.then(() => ended++)
    }
    // the reason, in a close frame, is behind what was sent and not read
    return { refusal: ended > 0 ? 'ended' : '', end: async () => sockets.forEach((socket) => void socket.destroy()) }
  },
}

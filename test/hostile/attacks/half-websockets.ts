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
  cheap: { connections: 16 },
  full: { connections: 60 },
  async play(stage, { connections }, signal) {
    const sockets: TLSSocket[] = []
    const frame = Buffer.alloc(14 + messageBytes - 1)
    frame[0] = 0x82
    frame[1] = 0xff
    frame.writeBigUInt64BE(BigInt(messageBytes), 2)
    for (let i = 0; i < connections; i++) {
      const socket = dial(stage.ca, stage.holder.agents, ['http/1.1'])
      sockets.push(socket)
      await once(socket, 'secureConnect', { signal })
      const closed = once(socket, 'close')
      socket.write(upgrade)
      await abortable(Promise.race([once(socket, 'data'), closed]), signal)
      await abortable(Promise.race([new Promise((resolve) => socket.write(frame, resolve)), closed]), signal)
    }
    return { refusal: '', end: async () => sockets.forEach((socket) => void socket.destroy()) }
  },
}

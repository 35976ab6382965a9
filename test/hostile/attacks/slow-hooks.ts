import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { delay } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dial, type Stage } from '../stage.ts'

interface Strangers {
  readonly addresses: number
  /** hooks of each address */
  readonly each: number
}

interface Size {
  readonly strangers: readonly Strangers[]
  /** duration of the attack before a good hook comes. ms */
  readonly lastsMs: number
}

/** rate over all bodies */
const bytesPerSecond = 200
const dialsAtOnce = 20
const tickMs = 50
const signed = ['POST /hooks/git/3 HTTP/1.1', 'Host: kas', `X-Hub-Signature-256: sha256=${'0'.repeat(64)}`]
/** in turn: the header of a body's length, and one byte of the body */
const bodies = [
  { length: 'Content-Length: 100000', byte: 'x' },
  { length: 'Transfer-Encoding: chunked', byte: '1\r\nx\r\n' },
] as const

interface SlowBody {
  readonly socket: TLSSocket
  readonly byte: string
}

/** Sends the head of a hook, and the first byte of its body. */
async function begin({ ca, entry }: Stage, number: number, address: string, signal: AbortSignal): Promise<SlowBody> {
  const socket = dial(ca, entry.kubernetes, [], address)
  const { length, byte } = bodies[number % bodies.length] as (typeof bodies)[number]
  await once(socket, 'secureConnect', { signal })
  socket.resume().write([...signed, length, '', byte].join('\r\n'))
  return { socket, byte }
}

/** Addresses, each in a network of its own. */
function addressesOf(strangers: readonly Strangers[]): string[] {
  const each = strangers.flatMap(({ addresses, each }) => Array.from({ length: addresses }, () => each))
  return each.flatMap((hooks, i) => Array.from({ length: hooks }, () => `127.${10 + (i >> 8)}.${i & 255}.66`))
}

export const slowHooks: Attack<Size> = {
  name: 'slow-hooks',
  what: 'strangers of many addresses who send hooks with another secret, and a byte of the body now and then',
  cheap: { strangers: [{ addresses: 30, each: 4 }], lastsMs: 500 },
  full: {
    strangers: [
      { addresses: 30, each: 4 },
      { addresses: 230, each: 1 },
    ],
    lastsMs: 15_000,
  },
  async play(stage, { strangers, lastsMs }, signal) {
    const slow: SlowBody[] = []
    let next = 0
    const drip = () => {
      for (let bytes = (bytesPerSecond * tickMs) / 1000; bytes > 0; bytes--) {
        const { socket, byte } = slow[next++ % slow.length] as SlowBody
        if (socket.writable) socket.write(byte)
      }
    }
    const addresses = addressesOf(strangers)
    for (let i = 0; i < addresses.length; i += dialsAtOnce) {
      const some = addresses.slice(i, i + dialsAtOnce)
      slow.push(...(await Promise.all(some.map((address, n) => begin(stage, i + n, address, signal)))))
    }
    const dripping = setInterval(drip, tickMs)
    const end = async () => {
      clearInterval(dripping)
      for (const { socket } of slow) socket.destroy()
    }
    await delay(lastsMs, signal).catch(async (error) => {
      await end()
      throw error
    })
    return { refusal: '', end }
  },
}

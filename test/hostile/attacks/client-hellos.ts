import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { abortable, delay } from '../../../src/lib/signals.ts'
import { type Attack, over } from '../attack.ts'
import type { Stage } from '../stage.ts'

export interface HelloSize {
  readonly addresses: number
  /** number of /24 networks of the addresses */
  readonly networks: number
  /** bytes of ClientHellos a second, over all connections */
  readonly bytesPerSecond: number
  /** time before good tenants are measured. ms */
  readonly runMs: number
}

/** pause between two bursts. ms */
const burstMs = 20
/** the attacker's own limit; the oldest connection is closed first */
const maxOpen = 8000

/** Records the first message of any TLS client: it costs nothing to send it again. */
export async function recordClientHello(): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = connectTls({ port, host: '127.0.0.1', ecdhCurve: 'P-256' }).on('error', () => undefined)
  const [socket] = (await once(server, 'connection')) as [Socket]
  const [hello] = (await once(socket, 'data')) as [Buffer]
  client.destroy()
  socket.destroy()
  server.close()
  return hello
}

/** An address of this machine that no other test uses, in one of `networks` networks. */
export function loopbackAddress(i: number, networks: number): string {
  const network = i % networks
  return `127.${100 + (network >> 8)}.${network & 255}.${1 + (Math.floor(i / networks) % 250)}`
}

/** Sends recorded ClientHellos from all addresses in turn, and leaves the connections open. @returns ends it */
export function sendHellos(
  ports: readonly number[],
  hello: Buffer,
  { addresses, networks, bytesPerSecond }: Omit<HelloSize, 'runMs'>,
): { readonly end: () => void; readonly sent: () => number } {
  const open = new Set<Socket>()
  const began = performance.now()
  let sent = 0
  const send = () => {
    const localAddress = loopbackAddress(sent % addresses, networks)
    const port = ports[sent % ports.length] as number
    sent++
    const socket = connect({ port, host: '127.0.0.1', localAddress, noDelay: true })
    open.add(socket)
    socket.on('error', () => undefined).on('close', () => open.delete(socket))
    socket.write(hello)
    const [oldest] = open
    if (open.size > maxOpen) oldest?.destroy()
  }
  const timer = setInterval(() => {
    const due = ((performance.now() - began) / 1000) * (bytesPerSecond / hello.length)
    const burst = Math.min(due - sent, bytesPerSecond / hello.length) // at most a second's worth
    for (let i = 0; i < burst; i++) send()
  }, burstMs)
  const end = () => {
    clearInterval(timer)
    for (const socket of open) socket.destroy()
  }
  return { end, sent: () => sent }
}

async function play({ holder, entry }: Stage, { runMs, ...size }: HelloSize, signal: AbortSignal) {
  const hello = await abortable(recordClientHello(), signal)
  const { end } = sendHellos([holder.agents, entry.kubernetes], hello, size)
  try {
    await delay(runMs, signal)
  } catch (error) {
    end()
    throw error
  }
  return { ...over(''), end: async () => end() }
}

const cheap = { addresses: 120, bytesPerSecond: 50_000, runMs: 500 }
const full = { addresses: 3500, bytesPerSecond: 500_000, runMs: 10_000 }

export const hellosOfFewNetworks: Attack<HelloSize> = {
  name: 'hellos-of-few-networks',
  what: 'recorded ClientHellos from thousands of addresses in 14 networks, at both ports, and nothing after them',
  cheap: { ...cheap, networks: 4 },
  full: { ...full, networks: 14 },
  play,
}

export const hellosOfManyNetworks: Attack<HelloSize> = {
  name: 'hellos-of-many-networks',
  what: 'the same from addresses that are each of another network',
  cheap: { ...cheap, networks: 120 },
  full: { ...full, networks: 3500 },
  play,
}

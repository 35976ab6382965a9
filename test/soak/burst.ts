import type { TLSSocket } from 'node:tls'
import { type Findings, median, type Stage } from './scene.ts'

export interface BurstOptions {
  readonly calls: number
  /** agentk's idle tunnels, by its own metric */
  readonly idleTunnels: () => Promise<number>
  /** number of idle tunnels when the burst begins */
  readonly wantedIdle: number
}

/** connections made at a time: the test is about calls, not about handshakes */
const dialsAtOnce = 25
const path = '/api/v1/namespaces'

/** Makes many calls in the same moment, against the few tunnels that agentk keeps: all succeed. */
export async function burst({ kube, say }: Stage, options: BurstOptions): Promise<Findings> {
  const sockets: TLSSocket[] = []
  while (sockets.length < options.calls) {
    const count = Math.min(dialsAtOnce, options.calls - sockets.length)
    sockets.push(...(await Promise.all(Array.from({ length: count }, () => kube.dial()))))
  }
  const idle = await options.idleTunnels()
  say(`${sockets.length} connections are open, ${idle} tunnels idle; now one call on each connection`)
  const began = performance.now()
  const calls = await Promise.all(
    sockets.map(async (socket) => {
      const outcome = await kube.ask(path, { socket }).then(checked, (error: Error) => error.message)
      return { outcome, ms: performance.now() - began }
    }),
  )
  for (const socket of sockets) socket.destroy()
  const failed = calls.filter(({ outcome }) => outcome !== 'ok')
  const times = calls.map(({ ms }) => ms)
  return {
    figures: [
      `${calls.length} calls at once against ${idle} idle tunnels: ${calls.length - failed.length} succeeded`,
      `max ${Math.max(...times).toFixed(0)} ms, median ${median(times).toFixed(0)} ms`,
      `tunnels idle afterwards: ${await options.idleTunnels()}`,
    ],
    failures: [
      ...(idle === options.wantedIdle ? [] : [`${idle} tunnels were idle when the calls began`]),
      ...(failed.length > 0 ? [`${failed.length} calls failed, the first: ${failed[0]?.outcome}`] : []),
    ],
  }
}

function checked({ status, body }: { status: number; body: string }): string {
  if (status !== 200) return `${status} ${body.slice(0, 200)}`
  return JSON.parse(body).kind === 'NamespaceList' ? 'ok' : `not a list: ${body.slice(0, 200)}`
}

import type { Call, Reply } from '../../src/call/call.ts'
import type { Tunnel, TunnelState } from '../../src/kas/tunnels/tunnel.ts'

/**
 * A tunnel for `method` that a registry accepts. `forward` gets its calls; absent: it gets none. A test may change its
 * state.
 */
export function idleTunnel(method: string, forward?: (call: Call) => Reply): Tunnel & { state: TunnelState } {
  const tunnel = {
    state: 'idle',
    methods: new Set([method]),
    connection: { isSuspect: () => false, retired: new AbortController().signal, running: 0, measure: () => undefined },
    ended: new Promise<void>(() => undefined),
    take: () => {
      tunnel.state = 'taken'
    },
    giveBack: () => {
      tunnel.state = 'idle'
    },
    forward: (call: Call) => {
      if (!forward) throw new Error('no call was expected')
      tunnel.state = 'forwarding'
      return forward(call)
    },
  }
  return tunnel as unknown as Tunnel & { state: TunnelState }
}

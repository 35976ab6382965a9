import { parentPort, workerData } from 'node:worker_threads'
import { delay } from '../../src/lib/signals.ts'
import { kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import { dialFake } from '../cluster/front-cases.ts'

/**
 * Options of a thread of agents that stay connected until it is ended. It notifies its parent of each dial that fails.
 */

export interface PlacedAgentsOptions {
  /** path, PEM */
  readonly caFile: string
  /** addresses of the front, which the agents use in turn */
  readonly addresses: readonly string[]
  readonly ids: readonly number[]
}

/** pause between first dials: all TLS handshakes run on this one thread */
const betweenFirstDialsMs = 30
/** pause of an agent that lost its connection; agentk waits longer */
const redialMs = 200

const { caFile, addresses, ids } = workerData as PlacedAgentsOptions

/** An agent with one tunnel, which it opens again after each end. */
async function staysConnected(agent: number, address: string): Promise<never> {
  for (;;) {
    try {
      const fake = await dialFake(caFile, { agent, address })
      await fake.open([kubernetesApiMethod]).done
      fake.close()
      fake.socket.destroy()
    } catch {
      parentPort?.postMessage('failed') // the front has no replica for it, for example while one is away
    }
    await delay(redialMs * (0.5 + Math.random()))
  }
}

for (const [i, agent] of ids.entries()) {
  void staysConnected(agent, addresses[i % addresses.length] as string)
  await delay(betweenFirstDialsMs)
}

import { parentPort, workerData } from 'node:worker_threads'
import { delay } from '../../src/lib/signals.ts'
import { kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import { dialFake } from '../cluster/front-cases.ts'

/** Agents that stay connected, as a thread, until it is ended. Tells its parent of each dial that fails. */

export interface PlacedAgentsOptions {
  /** path, PEM */
  readonly caFile: string
  /** of the front, which they take by turns */
  readonly addresses: readonly string[]
  readonly ids: readonly number[]
}

/** TLS of each takes its time, all of it on this one thread */
const betweenFirstDialsMs = 30
/** an agent that lost its connection tries again; agentk waits longer */
const redialMs = 200

const { caFile, addresses, ids } = workerData as PlacedAgentsOptions

/** An agent with one tunnel, which it opens anew whenever that has ended. */
async function staysConnected(agent: number, address: string): Promise<never> {
  for (;;) {
    try {
      const fake = await dialFake(caFile, { agent, address })
      await fake.open([kubernetesApiMethod]).done
      fake.close()
      fake.socket.destroy()
    } catch {
      parentPort?.postMessage('failed') // a front without a replica for it, as it happens while one is away
    }
    await delay(redialMs * (0.5 + Math.random()))
  }
}

for (const [i, agent] of ids.entries()) {
  void staysConnected(agent, addresses[i % addresses.length] as string)
  await delay(betweenFirstDialsMs)
}

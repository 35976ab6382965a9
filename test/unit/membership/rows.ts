import type { AgentId } from '../../../src/call/call.ts'
import type { ConnectionEntry, InstanceId, RowHead } from '../../../src/membership/table/row.ts'

/** Rows for tests. */

export const head: RowHead = {
  name: 'kas-0',
  state: 'serving',
  replicaPort: 8155,
  publicKeyHash: 'ab'.repeat(32),
  kasVersion: '0.1.0',
  startedAt: 1_780_000_000_000,
  gossipPort: 8156,
}

export function entry(id: string, agentId = 42, changes: Partial<ConnectionEntry> = {}): ConnectionEntry {
  return {
    id,
    agentId: BigInt(agentId) as AgentId,
    projectId: 7n,
    pod: `pod-${id}`,
    role: 'home',
    agentMeta: Buffer.from('meta'),
    methods: ['/a.B/C'],
    connectedAt: 1_780_000_000_000,
    ...changes,
  }
}

export const instance = (name: string) => name as InstanceId

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let x = Math.imul(state ^ (state >>> 15), 1 | state)
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x
    return ((x ^ (x >>> 14)) >>> 0) / 4_294_967_296
  }
}

import type { AgentId } from '../../../src/call/call.ts'
import type {
  InstanceId,
  RowConnection,
  RowDelta,
  RowHead,
  RowRegistration,
  RowSnapshot,
} from '../../../src/membership/table/row.ts'

/** Rows for tests. */

export const head: RowHead = {
  name: 'kas-0',
  state: 'serving',
  replicaHost: undefined,
  replicaPort: 8155,
  publicKeyHash: 'ab'.repeat(32),
  agentAddress: undefined,
  kasVersion: '0.1.0',
  startedAt: 1_780_000_000_000,
  gossipPort: 8156,
}

export function connection(id: string, agentId = 42, changes: Partial<RowConnection> = {}): RowConnection {
  return {
    id,
    agentId: BigInt(agentId) as AgentId,
    projectId: 7n,
    pod: `pod-${id}`,
    role: 'home',
    methods: ['/a.B/C'],
    connectedAt: 1_780_000_000_000,
    ...changes,
  }
}

export function registration(podId: bigint, agentId = 42, changes: Partial<RowRegistration> = {}): RowRegistration {
  return {
    id: `pod ${agentId} ${podId}`,
    agentId: BigInt(agentId) as AgentId,
    projectId: 7n,
    podId,
    meta: new TextEncoder().encode('meta'),
    renewed: true,
    registeredAt: 1_780_000_000_000,
    ...changes,
  }
}

/** A delta of one version that changes only the fields of `changes`. */
export function delta(from: number, changes: Partial<RowDelta> = {}): RowDelta {
  return { from, to: from + 1, removed: [], connections: [], registrations: [], ...changes }
}

/** An empty row with the fields of `changes`. */
export function snapshot(owner: InstanceId, version: number, changes: Partial<RowSnapshot> = {}): RowSnapshot {
  return { instance: owner, version, head, connections: [], registrations: [], ...changes }
}

export const instance = (name: string) => name as InstanceId

/** Returns random numbers from 0 to 1, the same ones for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let x = Math.imul(state ^ (state >>> 15), 1 | state)
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x
    return ((x ^ (x >>> 14)) >>> 0) / 4_294_967_296
  }
}

import type { AgentId } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'

/** What replicas know of one another: one row an instance, written by that instance alone (doc/membership.md). */

/** One process: its libp2p peer id, made anew at each start. */
export type InstanceId = string & { readonly brand: 'InstanceId' }

/** `leaving`: serves what it has, and should get no new calls. A state that we do not know counts as `joining`. */
export type RowState = 'joining' | 'serving' | 'leaving'

/** One connection of an agent's pod, at the replica that holds it. Never changed: replaced, under its id. */
export interface ConnectionEntry {
  /** unique at its holder */
  readonly id: string
  readonly agentId: AgentId
  readonly projectId: bigint
  /** name of the pod, as it told; may be empty */
  readonly pod: string
  readonly role: 'home' | 'standby'
  /** the message AgentMeta, as the agent sent it */
  readonly agentMeta: Uint8Array
  /** `/package.Service/Method` */
  readonly methods: readonly string[]
  /** ms since 1970, by the holder's clock */
  readonly connectedAt: number
  /** present: the entry is no connection, and has no methods: a pod said here that it is there */
  readonly registration?: Registration
}

export interface Registration {
  /** `pod_id` of AgentRegistrar */
  readonly podId: bigint
  /** the pod says it again every five minutes: it holds on when its row is gone */
  readonly renewed: boolean
}

/** A row without its connections. */
export interface RowHead {
  /** survives restarts; the ring is made of names */
  readonly name: string
  readonly state: RowState
  /** where 8155 is; without it, the host that the gossip connection leads to */
  readonly replicaHost?: string
  readonly replicaPort: number
  /** SHA-256 of the certificate's public key (SubjectPublicKeyInfo, DER), hex */
  readonly publicKeyHash: string
  /** where agents reach this replica alone, if they can: `wss://kas-0.example.com` */
  readonly agentAddress?: string
  readonly kasVersion: string
  /** ms since 1970, by its own clock */
  readonly startedAt: number
  /** where it listens for gossip */
  readonly gossipPort: number
}

/** A row; its content moves on with the table, and `version` with it. */
export interface Row {
  readonly instance: InstanceId
  readonly version: number
  /** never changed: replaced */
  readonly head: RowHead
  /** by id */
  readonly connections: ReadonlyMap<string, ConnectionEntry>
}

/** A whole row at one version, as its owner gives it. */
export interface RowSnapshot {
  readonly instance: InstanceId
  readonly version: number
  readonly head: RowHead
  readonly connections: readonly ConnectionEntry[]
}

/** The change from version `from` to `to`; also right for a row in between. */
export interface RowDelta {
  readonly from: number
  readonly to: number
  readonly head?: RowHead
  /** removed or replaced meanwhile; before `added` */
  readonly removed: readonly string[]
  readonly added: readonly ConnectionEntry[]
}

/**
 * Bounds of a row (doc/membership.md "Who gets in"): what is beyond them is refused, by its owner and by all others.
 */
export const bounds = {
  agentMetaBytes: 4096,
  methods: 256,
  /** of an id, a pod, a method, a version, an address */
  textLength: 512,
  /** a DNS name's */
  nameLength: 253,
  connectionsOfAgent: 1000,
  /** of what one agent has in a row, as its owner keeps it: an older version knows no such bound */
  agentBytes: 256 * 1024,
  /** as its owner counts */
  rowBytes: 64 * 1024 * 1024,
  /** of a row of another: an older version counts less for an entry than this one */
  heardRowBytes: 128 * 1024 * 1024,
  instances: 256,
} as const

/** what an entry, and each method, takes on the wire at most beside its texts */
const entryOverheadBytes = 96
const methodOverheadBytes = 3

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]*$/
const hashPattern = /^[0-9a-f]{64}$/

/** Entries of the row that are connections, and no registrations. */
export function connectionsOf({ connections }: Row): ConnectionEntry[] {
  return [...connections.values()].filter(({ registration }) => registration === undefined)
}

/** What the entry takes on the wire, or some bytes more. */
export function entryBytes({ id, pod, agentMeta, methods }: ConnectionEntry): number {
  let bytes = entryOverheadBytes + Buffer.byteLength(id) + Buffer.byteLength(pod) + agentMeta.length
  for (const method of methods) bytes += Buffer.byteLength(method) + methodOverheadBytes
  return bytes
}

/** @throws KasError INVALID_MESSAGE if the entry is beyond its bounds */
export function checkEntry(entry: ConnectionEntry): void {
  const { id, agentId, pod, agentMeta, methods } = entry
  if (id === '' || id.length > bounds.textLength) throw outOfBounds('the id of a connection')
  if (agentId <= 0n) throw outOfBounds('an agent id')
  if (pod.length > bounds.textLength) throw outOfBounds('the name of a pod')
  if (agentMeta.length > bounds.agentMetaBytes) throw outOfBounds('the description of an agent')
  if (methods.length > bounds.methods) throw outOfBounds('the number of methods')
  if (methods.some((method) => method.length > bounds.textLength)) throw outOfBounds('the name of a method')
}

/** @throws KasError INVALID_MESSAGE */
export function checkHead(head: RowHead): void {
  if (head.name.length > bounds.nameLength || !namePattern.test(head.name)) throw outOfBounds('the name of a replica')
  if (!hashPattern.test(head.publicKeyHash)) throw outOfBounds('the hash of a public key')
  for (const text of [head.replicaHost, head.agentAddress, head.kasVersion]) {
    if (text !== undefined && text.length > bounds.textLength) throw outOfBounds('a text of a row')
  }
  for (const port of [head.replicaPort, head.gossipPort]) {
    if (!(port >= 0 && port <= 65_535)) throw outOfBounds('a port')
  }
}

export function outOfBounds(what: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: `${what} is out of bounds` })
}

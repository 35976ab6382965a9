import type { AgentId } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'

/**
 * Knowledge of replicas about one another: one row an instance, which only that instance writes (doc/internals/membership.md).
 */

/** One process: its libp2p peer id, which is new at each start. */
export type InstanceId = string & { readonly brand: 'InstanceId' }

/** `leaving`: serves its calls, and should get no new ones. An unknown state counts as `joining`. */
export type RowState = 'joining' | 'serving' | 'leaving'

/**
 * One connection of an agent's pod, at the replica of that connection. It is immutable: a change replaces it, under its
 * id.
 */
export interface RowConnection {
  /** unique in its row, also among registrations */
  readonly id: string
  readonly agentId: AgentId
  readonly projectId: bigint
  /** name that the pod reports; may be empty */
  readonly pod: string
  readonly role: 'home' | 'standby'
  /** `/package.Service/Method` */
  readonly methods: readonly string[]
  /** ms since 1970, by the clock of its replica */
  readonly connectedAt: number
}

/** Registration of a pod at this replica. It is immutable: a change replaces it, under its id. */
export interface RowRegistration {
  readonly id: string
  readonly agentId: AgentId
  readonly projectId: bigint
  /** `pod_id` of AgentRegistrar */
  readonly podId: bigint
  /** the message AgentMeta, as the pod sent it */
  readonly meta: Uint8Array
  /** true: the pod registers again every five minutes, so the registration survives its row */
  readonly renewed: boolean
  /** ms since 1970; unchanged if the pod registers at another replica */
  readonly registeredAt: number
}

/** An item of an agent: both kinds share a row's ids, its bounds and its list on the wire. */
export type RowItem = RowConnection | RowRegistration

/** A row without its items. */
export interface RowHead {
  /** name of the replica; it survives restarts, and the ring consists of names */
  readonly name: string
  readonly state: RowState
  /** host of port 8155; undefined: the host of the gossip connection */
  readonly replicaHost: string | undefined
  readonly replicaPort: number
  /** SHA-256 of the certificate's public key (SubjectPublicKeyInfo, DER), hex */
  readonly publicKeyHash: string
  /** address for agents that leads to this replica only: `wss://kas-0.example.com`; undefined: there is none */
  readonly agentAddress: string | undefined
  readonly kasVersion: string
  /** ms since 1970, by its own clock */
  readonly startedAt: number
  /** port on which it listens for gossip */
  readonly gossipPort: number
}

/** A row. Its content changes with the table, and so does `version`. */
export interface Row {
  readonly instance: InstanceId
  readonly version: number
  /** immutable: replaced by changes */
  readonly head: RowHead
  /** by id */
  readonly connections: ReadonlyMap<string, RowConnection>
  /** by id */
  readonly registrations: ReadonlyMap<string, RowRegistration>
}

/** Items by kind. */
export interface RowItems {
  readonly connections: readonly RowConnection[]
  readonly registrations: readonly RowRegistration[]
}

/** A whole row at one version, as its owner sends it. */
export interface RowSnapshot extends RowItems {
  readonly instance: InstanceId
  readonly version: number
  readonly head: RowHead
}

/** The change from version `from` to `to`; it also applies to a row in between. Its items are the added ones. */
export interface RowDelta extends RowItems {
  readonly from: number
  readonly to: number
  readonly head?: RowHead | undefined
  /** ids that were removed or replaced, which are removed before the items are added */
  readonly removed: readonly string[]
}

/** Bounds of a row (doc/internals/membership.md "Who gets in"): items beyond them are refused, by its owner and by all others. */
export const bounds = {
  /** of the meta of a registration */
  metaBytes: 4096,
  /** methods of a connection */
  methods: 256,
  /** length of an id, a pod, a method, a version, an address */
  textLength: 512,
  /** length of a DNS name */
  nameLength: 253,
  /** connections and registrations of one agent in a row */
  itemsOfAgent: 1000,
  /** bytes of one agent's items in a row, as its owner counts */
  agentBytes: 256 * 1024,
  /** as its owner counts */
  rowBytes: 64 * 1024 * 1024,
  /** of another instance's row: with a reserve */
  peerRowBytes: 128 * 1024 * 1024,
  /** replicas, each with its row */
  instances: 256,
  /**
   * added and removed items of one message, or of a part of a row: each takes 12 bytes at least, by its owner's count
   */
  itemsOfMessage: 32_768,
} as const

/** greatest size of an item, and of each method, on the wire without its texts */
const itemOverheadBytes = 96
const methodOverheadBytes = 3

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]*$/
const hashPattern = /^[0-9a-f]{64}$/

export function isConnection(item: RowItem): item is RowConnection {
  return 'methods' in item
}

export function byKind(items: Iterable<RowItem>): RowItems {
  const connections: RowConnection[] = []
  const registrations: RowRegistration[] = []
  for (const item of items) {
    if (isConnection(item)) connections.push(item)
    else registrations.push(item)
  }
  return { connections, registrations }
}

/** Size of the item on the wire, or some bytes more. */
export function itemBytes(item: RowItem): number {
  const bytes = itemOverheadBytes + Buffer.byteLength(item.id)
  if (!isConnection(item)) return bytes + item.meta.length
  const methods = item.methods.reduce((sum, method) => sum + Buffer.byteLength(method) + methodOverheadBytes, 0)
  return bytes + Buffer.byteLength(item.pod) + methods
}

/** @throws KasError INVALID_MESSAGE if the item is beyond its bounds */
export function checkItem(item: RowItem): void {
  if (item.id === '' || item.id.length > bounds.textLength) throw outOfBounds('an id of a row')
  if (item.agentId <= 0n) throw outOfBounds('an agent id')
  if (!isConnection(item)) {
    if (item.meta.length > bounds.metaBytes) throw outOfBounds('the description of an agent')
    return
  }
  if (item.pod.length > bounds.textLength) throw outOfBounds('the name of a pod')
  if (item.methods.length > bounds.methods) throw outOfBounds('the number of methods')
  if (item.methods.some((method) => method.length > bounds.textLength)) throw outOfBounds('the name of a method')
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

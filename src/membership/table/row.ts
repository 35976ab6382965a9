import type { AgentId } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'

/** What replicas know of one another: one row an instance, written by that instance alone (doc/membership.md). */

/** One process: its libp2p peer id, made anew at each start. */
export type InstanceId = string & { readonly brand: 'InstanceId' }

/** `leaving`: serves what it has, and should get no new calls. A state that we do not know counts as `joining`. */
export type RowState = 'joining' | 'serving' | 'leaving'

/** One connection of an agent's pod, at the replica that holds it. Never changed: replaced, under its id. */
export interface RowConnection {
  /** unique in its row, among registrations too */
  readonly id: string
  readonly agentId: AgentId
  readonly projectId: bigint
  /** name of the pod, as it reports it; may be empty */
  readonly pod: string
  readonly role: 'home' | 'standby'
  /** `/package.Service/Method` */
  readonly methods: readonly string[]
  /** ms since 1970, by the holder's clock */
  readonly connectedAt: number
}

/** That a pod said at this replica that it is there. Never changed: replaced, under its id. */
export interface RowRegistration {
  readonly id: string
  readonly agentId: AgentId
  readonly projectId: bigint
  /** `pod_id` of AgentRegistrar */
  readonly podId: bigint
  /** the message AgentMeta, as the pod sent it */
  readonly meta: Uint8Array
  /** the pod says it again every five minutes: it holds on when its row is gone */
  readonly renewed: boolean
  /** ms since 1970; kept when the pod registers at another replica */
  readonly registeredAt: number
}

/** What a row has of agents: both kinds share its ids, its bounds and its list on the wire. */
export type RowItem = RowConnection | RowRegistration

/** A row without its items. */
export interface RowHead {
  /** survives restarts; the ring is made of names */
  readonly name: string
  readonly state: RowState
  /** where 8155 is; without it, the host that the gossip connection leads to */
  readonly replicaHost: string | undefined
  readonly replicaPort: number
  /** SHA-256 of the certificate's public key (SubjectPublicKeyInfo, DER), hex */
  readonly publicKeyHash: string
  /** where agents reach this replica alone, if they can: `wss://kas-0.example.com` */
  readonly agentAddress: string | undefined
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
  readonly connections: ReadonlyMap<string, RowConnection>
  /** by id */
  readonly registrations: ReadonlyMap<string, RowRegistration>
}

/** Items by kind. */
export interface RowItems {
  readonly connections: readonly RowConnection[]
  readonly registrations: readonly RowRegistration[]
}

/** A whole row at one version, as its owner gives it. */
export interface RowSnapshot extends RowItems {
  readonly instance: InstanceId
  readonly version: number
  readonly head: RowHead
}

/** The change from version `from` to `to`; also right for a row in between. Its items are those that were added. */
export interface RowDelta extends RowItems {
  readonly from: number
  readonly to: number
  readonly head?: RowHead | undefined
  /** ids that were removed or replaced meanwhile; before the items are added */
  readonly removed: readonly string[]
}

/**
 * Bounds of a row (doc/membership.md "Who gets in"): what is beyond them is refused, by its owner and by all others.
 */
export const bounds = {
  metaBytes: 4096,
  methods: 256,
  /** of an id, a pod, a method, a version, an address */
  textLength: 512,
  /** a DNS name's */
  nameLength: 253,
  /** connections and registrations */
  itemsOfAgent: 1000,
  /** of what one agent has in a row, as its owner keeps it */
  agentBytes: 256 * 1024,
  /** as its owner counts */
  rowBytes: 64 * 1024 * 1024,
  /** of a row of another: with room to spare */
  peerRowBytes: 128 * 1024 * 1024,
  instances: 256,
  /** added and removed in one message, or a part of a row: each takes 12 bytes at least, where its owner counts */
  itemsOfMessage: 32_768,
} as const

/** what an item, and each method, takes on the wire at most beside its texts */
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

/** What the item takes on the wire, or some bytes more. */
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

import { create, toBinary } from '@bufbuild/protobuf'
import type { AgentId } from '../../call/call.ts'
import { decodeMessage } from '../../proto/decode.ts'
import {
  BeatSchema,
  type Connection,
  ConnectionSchema,
  DeltaSchema,
  FarewellSchema,
  type Head,
  HeadSchema,
  type News,
  NewsSchema,
  Role,
  State,
} from '../../proto/gen/replica_pb.ts'
import { fieldCountWithin } from '../../proto/wire/field-count.ts'
import {
  bounds,
  byKind,
  checkHead,
  checkItem,
  type InstanceId,
  isConnection,
  outOfBounds,
  type RowDelta,
  type RowHead,
  type RowItem,
  type RowState,
} from './row.ts'

/** Rows and gossip to the messages of `src/proto/replica.proto` and back; what is out of bounds is refused. */

/** of `News` */
const deltaField = NewsSchema.field.delta.number

/** What an instance publishes about its row. */
export type GossipMessage =
  | { readonly kind: 'delta'; readonly delta: RowDelta }
  | { readonly kind: 'heartbeat'; readonly version: number }
  | { readonly kind: 'farewell' }

export function encodeGossip(instance: InstanceId, message: GossipMessage): Uint8Array {
  return toBinary(NewsSchema, create(NewsSchema, { instance, news: contentOf(message) }))
}

function contentOf(message: GossipMessage): News['news'] {
  if (message.kind === 'farewell') return { case: 'farewell', value: create(FarewellSchema) }
  if (message.kind === 'heartbeat') {
    return { case: 'beat', value: create(BeatSchema, { version: BigInt(message.version) }) }
  }
  const { from, to, head, removed, connections, registrations } = message.delta
  const value = create(DeltaSchema, {
    from: BigInt(from),
    to: BigInt(to),
    removed: [...removed],
    added: [...connections, ...registrations].map(itemToMessage),
    ...(head && { head: headToMessage(head) }),
  })
  return { case: 'delta', value }
}

/**
 * @returns `message` undefined if it is of a kind that this version does not know
 * @throws KasError INVALID_MESSAGE if it is malformed or out of bounds
 */
export function decodeGossip(bytes: Uint8Array): {
  readonly instance: InstanceId
  readonly message: GossipMessage | undefined
} {
  if (fieldCountWithin(bytes, deltaField, bounds.itemsOfMessage) > bounds.itemsOfMessage) {
    throw outOfBounds('the number of changes in a message')
  }
  const { instance, news: content } = decodeMessage(NewsSchema, bytes)
  return { instance: instance as InstanceId, message: messageOf(content) }
}

function messageOf(content: News['news']): GossipMessage | undefined {
  switch (content.case) {
    case 'farewell':
      return { kind: 'farewell' }
    case 'beat':
      return { kind: 'heartbeat', version: versionOf(content.value.version) }
    case 'delta': {
      const { from, to, head, removed, added } = content.value
      const delta: RowDelta = {
        from: versionOf(from),
        to: versionOf(to),
        removed,
        head: head && headOf(head),
        ...byKind(added.map(itemOf)),
      }
      if (delta.to <= delta.from) throw outOfBounds('a version')
      return { kind: 'delta', delta }
    }
    default:
      return undefined
  }
}

/** Versions are counted from 1 by steps of one: beyond 2^53 is none. */
export function versionOf(version: bigint): number {
  if (version > BigInt(Number.MAX_SAFE_INTEGER)) throw outOfBounds('a version')
  return Number(version)
}

const stateNumbers: Record<RowState, State> = {
  joining: State.JOINING,
  serving: State.SERVING,
  leaving: State.LEAVING,
}

function stateOf(state: State): RowState {
  if (state === State.SERVING) return 'serving'
  return state === State.LEAVING ? 'leaving' : 'joining'
}

export function headToMessage(head: RowHead): Head {
  return create(HeadSchema, {
    name: head.name,
    state: stateNumbers[head.state],
    replicaHost: head.replicaHost ?? '',
    replicaPort: head.replicaPort,
    publicKeyHash: Buffer.from(head.publicKeyHash, 'hex'),
    agentAddress: head.agentAddress ?? '',
    kasVersion: head.kasVersion,
    startedAtMs: BigInt(head.startedAt),
    gossipPort: head.gossipPort,
  })
}

/** @throws KasError INVALID_MESSAGE */
export function headOf(message: Head): RowHead {
  const head: RowHead = {
    name: message.name,
    state: stateOf(message.state),
    replicaPort: message.replicaPort,
    publicKeyHash: Buffer.from(message.publicKeyHash).toString('hex'),
    kasVersion: message.kasVersion,
    startedAt: Number(message.startedAtMs),
    gossipPort: message.gossipPort,
    replicaHost: message.replicaHost || undefined,
    agentAddress: message.agentAddress || undefined,
  }
  checkHead(head)
  return head
}

/** A registration is a connection that serves nothing, to a replica that does not know registrations. */
export function itemToMessage(item: RowItem): Connection {
  const { id, agentId, projectId } = item
  if (isConnection(item)) {
    return create(ConnectionSchema, {
      id,
      agentId,
      projectId,
      pod: item.pod,
      role: item.role === 'standby' ? Role.STANDBY : Role.HOME,
      methods: [...item.methods],
      connectedAtMs: BigInt(item.connectedAt),
    })
  }
  return create(ConnectionSchema, {
    id,
    agentId,
    projectId,
    role: Role.HOME,
    agentMeta: item.meta,
    connectedAtMs: BigInt(item.registeredAt),
    registration: { podId: item.podId, renewed: item.renewed },
  })
}

/** @throws KasError INVALID_MESSAGE */
export function itemOf(message: Connection): RowItem {
  const { id, projectId, registration } = message
  const of = { id, agentId: message.agentId as AgentId, projectId }
  const since = Number(message.connectedAtMs)
  const item: RowItem = registration
    ? {
        ...of,
        podId: registration.podId,
        meta: new Uint8Array(message.agentMeta), // a copy: a part of what was read would keep all of it
        renewed: registration.renewed,
        registeredAt: since,
      }
    : {
        ...of,
        pod: message.pod,
        role: message.role === Role.STANDBY ? 'standby' : 'home',
        methods: message.methods,
        connectedAt: since,
      }
  checkItem(item)
  return item
}

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
  type Registration,
  RegistrationSchema,
  Role,
  State,
} from '../../proto/gen/replica_pb.ts'
import { fieldCountWithin } from '../../proto/wire/field-count.ts'
import {
  bounds,
  checkHead,
  checkItem,
  type InstanceId,
  outOfBounds,
  type RowConnection,
  type RowDelta,
  type RowHead,
  type RowItems,
  type RowRegistration,
  type RowState,
} from './row.ts'

/** Converts rows and gossip to the messages of `src/proto/replica.proto` and back; data out of bounds is refused. */

/** of `News` */
const deltaField = NewsSchema.field.delta.number

/** Messages of an instance about its row. */
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
    ...itemsToMessages({ connections, registrations }),
    ...(head && { head: headToMessage(head) }),
  })
  return { case: 'delta', value }
}

/**
 * @returns `message` undefined: this version does not know its kind
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
      const { from, to, head, removed } = content.value
      const delta: RowDelta = {
        from: versionOf(from),
        to: versionOf(to),
        removed,
        head: head && headOf(head),
        ...itemsOf(content.value),
      }
      if (delta.to <= delta.from) throw outOfBounds('a version')
      return { kind: 'delta', delta }
    }
    default:
      return undefined
  }
}

/** Converts a version. Versions begin at 1 and grow by one, so a version above 2^53 is invalid. */
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

/** Converts items to the form of a delta and of a part of a row. */
export function itemsToMessages({ connections, registrations }: RowItems): {
  connections: Connection[]
  registrations: Registration[]
} {
  return {
    connections: connections.map(connectionToMessage),
    registrations: registrations.map(registrationToMessage),
  }
}

function connectionToMessage({ id, agentId, projectId, pod, role, methods, connectedAt }: RowConnection): Connection {
  return create(ConnectionSchema, {
    id,
    agentId,
    projectId,
    pod,
    role: role === 'standby' ? Role.STANDBY : Role.HOME,
    methods: [...methods],
    connectedAtMs: BigInt(connectedAt),
  })
}

function registrationToMessage(item: RowRegistration): Registration {
  const { id, agentId, projectId, podId, meta, renewed, registeredAt } = item
  return create(RegistrationSchema, {
    id,
    agentId,
    projectId,
    podId,
    agentMeta: meta,
    renewed,
    registeredAtMs: BigInt(registeredAt),
  })
}

/** @throws KasError INVALID_MESSAGE */
export function itemsOf(messages: {
  readonly connections: readonly Connection[]
  readonly registrations: readonly Registration[]
}): RowItems {
  return {
    connections: messages.connections.map(connectionOf),
    registrations: messages.registrations.map(registrationOf),
  }
}

function connectionOf({ id, agentId, projectId, pod, role, methods, connectedAtMs }: Connection): RowConnection {
  const connection: RowConnection = {
    id,
    agentId: agentId as AgentId,
    projectId,
    pod,
    role: role === Role.STANDBY ? 'standby' : 'home',
    methods,
    connectedAt: Number(connectedAtMs),
  }
  checkItem(connection)
  return connection
}

function registrationOf(message: Registration): RowRegistration {
  const { id, agentId, projectId, podId, agentMeta, renewed, registeredAtMs } = message
  const registration: RowRegistration = {
    id,
    agentId: agentId as AgentId,
    projectId,
    podId,
    meta: new Uint8Array(agentMeta), // a copy: a view would keep the whole buffer that was read
    renewed,
    registeredAt: Number(registeredAtMs),
  }
  checkItem(registration)
  return registration
}

import { hash } from 'node:crypto'
import type { AgentId } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import { descriptorBounds } from '../../proto/agent-descriptor.ts'
import { decodeConnectRequest } from '../../proto/reverse-tunnel.ts'
import type { AgentConnection } from './agent-connection.ts'

/**
 * Different descriptors that one agent's connections may send to this replica. Its pods have one version, or two during
 * an update. With `descriptorBounds.namesBytes` this bounds the memory for one agent: 256 KiB.
 */
export const maxDescriptionsPerAgent = 8

/** Descriptors of one agent that are recognized by hash: each pod of a stock agentk sends the same in its own order. */
const maxKnownFormsPerAgent = 64

/** Largest descriptor, with room for one or two empty fields around it. */
export const maxFirstMessageBytes = descriptorBounds.bytes + 1024

interface Description {
  /** `/package.Service/Method` */
  readonly methods: ReadonlySet<string>
  /** connections that have sent it */
  readonly connections: Set<AgentConnection>
}

interface AgentDescriptions {
  readonly all: Set<Description>
  /** by hash of the first message, the oldest first */
  readonly byHash: Map<string, Description>
}

/** Methods that the agents connected here serve: tunnels of an agent with the same methods share one set. */
export class Descriptions {
  readonly #agents = new Map<AgentId, AgentDescriptions>()

  /** Number of sets of methods that are kept, for all agents. */
  get size(): number {
    let size = 0
    for (const { all } of this.#agents.values()) size += all.size
    return size
  }

  /**
   * Returns the methods that a tunnel's first message names. The set is kept until the last connection that sent it
   * closes.
   *
   * @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE
   */
  of(agentId: AgentId, connection: AgentConnection, firstMessage: Uint8Array): ReadonlySet<string> {
    if (firstMessage.length > maxFirstMessageBytes) {
      throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: firstMessage.length, maxBytes: maxFirstMessageBytes })
    }
    const agent = this.#agents.get(agentId) ?? { all: new Set(), byHash: new Map() }
    const key = hash('sha256', firstMessage, 'base64')
    const description = agent.byHash.get(key) ?? read(agent, firstMessage)
    this.#agents.set(agentId, agent)
    agent.all.add(description)
    remember(agent, key, description)
    this.#keep(agentId, description, connection)
    return description.methods
  }

  #keep(agentId: AgentId, { methods, connections }: Description, connection: AgentConnection): void {
    if (connections.has(connection)) return
    connections.add(connection)
    void connection.session.closed.then(() => {
      connections.delete(connection)
      if (connections.size === 0) this.#forget(agentId, methods)
    })
  }

  #forget(agentId: AgentId, methods: ReadonlySet<string>): void {
    const agent = this.#agents.get(agentId)
    if (!agent) return
    for (const description of agent.all) if (description.methods === methods) agent.all.delete(description)
    for (const [key, description] of agent.byHash) if (description.methods === methods) agent.byHash.delete(key)
    if (agent.all.size === 0) this.#agents.delete(agentId)
  }
}

/** @returns a known description with the same methods, else a new one */
function read({ all }: AgentDescriptions, firstMessage: Uint8Array): Description {
  const methods = readMethods(firstMessage)
  for (const known of all) if (isSame(known.methods, methods)) return known
  if (all.size >= maxDescriptionsPerAgent) {
    const detail = `the agent sends more than ${maxDescriptionsPerAgent} different descriptors, allowed: ${maxDescriptionsPerAgent}`
    throw new KasError({ code: 'INVALID_MESSAGE', detail })
  }
  return { methods, connections: new Set() }
}

function remember({ byHash }: AgentDescriptions, key: string, description: Description): void {
  if (byHash.has(key)) return
  const [oldest] = byHash.keys()
  if (oldest !== undefined && byHash.size >= maxKnownFormsPerAgent) byHash.delete(oldest)
  byHash.set(key, description)
}

/** @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE */
function readMethods(firstMessage: Uint8Array): ReadonlySet<string> {
  const message = decodeConnectRequest(firstMessage)
  if (message.kind !== 'descriptor') {
    const detail = `forbidden transition from start to ${message.kind}, allowed: descriptor`
    throw new KasError({ code: 'INVALID_MESSAGE', detail })
  }
  const { services } = message.descriptor
  return new Set(services.flatMap(({ name, methods }) => methods.map((method) => `/${name}/${method.name}`)))
}

function isSame(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  return one.size === other.size && [...one].every((method) => other.has(method))
}

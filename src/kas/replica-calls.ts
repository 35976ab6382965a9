import {
  create,
  type DescMethodUnary,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf'
import type { Logger } from '../lib/log.ts'
import type { InstanceId, Membership } from '../membership/membership.ts'
import type { AgentId } from '../proto/call.ts'
import { Leads, Limits, Notifications, Pushes, Registrations } from '../proto/gen/replica_pb.ts'
import { callUnary } from '../proto/grpc/unary.ts'
import type { KnownPush } from './modules/flux/recent-pushes.ts'
import type { PushEvent } from './modules/notifications/notifications.ts'
import type { Replicas } from './router/replicas.ts'
import type { MinuteCounts } from './servers/agents/call-counts.ts'

export interface ReplicaCallsComponents {
  readonly membership: Pick<Membership, 'name' | 'instance' | 'rows'>
  readonly replicas: Pick<Replicas, 'link'>
  readonly log: Logger
}

/** An answer takes a round trip and no work that waits. ms */
const timeoutMs = 1000

/** Calls of this replica to the others for its own purposes, on their links (design 4). */
export class ReplicaCalls {
  readonly #components: ReplicaCallsComponents

  constructor(components: ReplicaCallsComponents) {
    this.#components = components
  }

  /** Other replicas that answer. */
  reachable(): InstanceId[] {
    const { membership } = this.#components
    const others = membership.rows().filter(({ instance }) => instance !== membership.instance)
    return others.map(({ instance }) => instance).filter((instance) => this.isReachable(instance))
  }

  isReachable(instance: InstanceId): boolean {
    const reach = this.#components.replicas.link(instance)?.reach
    return reach === 'reachable' || reach === 'suspect'
  }

  /** @throws KasError if it has not been acknowledged within 1 s */
  async pushEvent(instance: InstanceId, { projectId, projectPath, id }: PushEvent): Promise<void> {
    await this.#call(instance, Notifications.method.pushEvent, { projectId, projectPath, pushId: id ?? 0n })
  }

  /** Tells all others of a move that GitLab told nobody of; never rejects: who does not hear it looks by itself, later. */
  async branchMoved(projectId: bigint): Promise<void> {
    const tell = async (instance: InstanceId) => {
      try {
        await this.#call(instance, Notifications.method.branchMoved, { projectId })
      } catch (error) {
        const fields = { error, instance, project_id: String(projectId) }
        this.#components.log.debug(fields, 'A replica could not be told that a branch moved')
      }
    }
    await Promise.all(this.reachable().map(tell))
  }

  /** Tells all others that this one does not lead for the agent; never rejects: who does not hear it leaves it alone. */
  async passedOn(agentId: AgentId): Promise<void> {
    const { membership, log } = this.#components
    const tell = async (instance: InstanceId) => {
      try {
        await this.#call(instance, Leads.method.passedOn, { agentId, name: membership.name })
      } catch (error) {
        log.debug({ error, instance, agent_id: String(agentId) }, 'A replica could not be told that this one passes on')
      }
    }
    await Promise.all(this.reachable().map(tell))
  }

  /** Never rejects: who does not hear it counts for itself. */
  async callCounts({ minute, counts }: MinuteCounts): Promise<void> {
    const { membership, log } = this.#components
    const count = Array.from(counts, ([hash, calls]) => ({ tokenHash: Buffer.from(hash, 'base64'), calls }))
    const request = { name: membership.name, minute: BigInt(minute), count }
    const tell = async (instance: InstanceId) => {
      try {
        await this.#call(instance, Limits.method.callCounts, request)
      } catch (error) {
        log.debug({ error, instance }, 'A replica could not be told how often tokens were used')
      }
    }
    await Promise.all(this.reachable().map(tell))
  }

  /** What the other has heard of lately; never rejects: one of an older version does not say. */
  async recentPushes(instance: InstanceId): Promise<KnownPush[]> {
    try {
      const answer = await this.#call(instance, Pushes.method.recentPushes, {})
      return (answer?.push ?? []).map(({ pushId, ...push }) => ({ ...push, id: pushId }))
    } catch (error) {
      this.#components.log.debug({ error, instance }, 'A replica did not say which pushes it has heard of')
      return []
    }
  }

  /** Never rejects: what the other keeps, it drops once it is not renewed. */
  async forgetPod(instance: InstanceId, agentId: AgentId, podId: bigint): Promise<void> {
    try {
      await this.#call(instance, Registrations.method.forgetPod, { agentId, podId })
    } catch (error) {
      const fields = { error, instance, agent_id: String(agentId) }
      this.#components.log.debug(fields, 'A replica could not be told that a pod is not there any more')
    }
  }

  async #call<M extends DescMethodUnary>(
    instance: InstanceId,
    method: M,
    request: MessageInitShape<M['input']>,
  ): Promise<MessageShape<M['output']> | undefined> {
    const session = this.#components.replicas.link(instance)?.session
    if (!session) return undefined // it is gone: what it held went with it
    const answer: Message = await callUnary(session, method.input, method.output, create(method.input, request), {
      method: `/${method.parent.typeName}/${method.name}`,
      timeoutMs,
    })
    return answer as MessageShape<M['output']>
  }
}

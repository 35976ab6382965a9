import { create, type DescMethodUnary, type MessageInitShape } from '@bufbuild/protobuf'
import type { AgentId } from '../call/call.ts'
import { KasError } from '../lib/errors.ts'
import type { Logger } from '../lib/log.ts'
import type { InstanceId, Membership } from '../membership/membership.ts'
import { Leads, Limits, Notifications, Pushes, Registrations } from '../proto/gen/replica_pb.ts'
import { callUnary } from '../proto/grpc/unary.ts'
import type { KnownPush } from './modules/flux/recent-pushes.ts'
import type { Replicas } from './replicas/links.ts'
import type { PushEvent } from './repositories/pushes.ts'
import type { MinuteCounts } from './servers/agents/call-counts.ts'

export interface ReplicaCallsComponents {
  readonly membership: Pick<Membership, 'name' | 'instance' | 'rows'>
  readonly replicas: Pick<Replicas, 'link'>
  readonly log: Logger
}

/** An answer takes a round trip and no work that waits. ms */
const timeoutMs = 1000

/**
 * Calls of this replica to the others for its own purposes, on their links
 * (doc/routing.md "Another replica holds the agent").
 */
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
    await this.#tellAll(Notifications.method.branchMoved, { projectId })
  }

  /** Tells all others that this one does not lead for the agent. Never rejects. @returns names of those that know */
  async passedOn(agentId: AgentId): Promise<ReadonlySet<string>> {
    return await this.#tellAll(Leads.method.passedOn, { agentId, name: this.#components.membership.name })
  }

  /** Never rejects: who does not hear it counts for itself. */
  async callCounts({ minute, counts }: MinuteCounts): Promise<void> {
    const { name } = this.#components.membership
    const count = Array.from(counts, ([hash, calls]) => ({ tokenHash: Buffer.from(hash, 'base64'), calls }))
    await this.#tellAll(Limits.method.callCounts, { name, minute: BigInt(minute), count })
  }

  /** @throws KasError if it has not been acknowledged within 1 s */
  async recentPushes(instance: InstanceId, pushes: readonly KnownPush[]): Promise<void> {
    const push = pushes.map(({ id, ...each }) => ({ ...each, pushId: id }))
    await this.#call(instance, Pushes.method.recentPushes, { push })
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

  /** @returns names of those that have acknowledged it */
  async #tellAll<M extends DescMethodUnary>(method: M, request: MessageInitShape<M['input']>): Promise<Set<string>> {
    const { membership, log } = this.#components
    const names = new Map(membership.rows().map(({ instance, head }) => [instance, head.name]))
    const heard = new Set<string>()
    const tell = async (instance: InstanceId) => {
      try {
        await this.#call(instance, method, request)
        heard.add(names.get(instance) ?? '')
      } catch (error) {
        log.debug({ error, instance, grpc_method: method.name }, 'A replica could not be told')
      }
    }
    await Promise.all(this.reachable().map(tell))
    return heard
  }

  /** @throws KasError also if it is gone */
  async #call<M extends DescMethodUnary>(
    instance: InstanceId,
    method: M,
    request: MessageInitShape<M['input']>,
  ): Promise<void> {
    const session = this.#components.replicas.link(instance)?.session
    if (!session) throw new KasError({ code: 'CANCELLED', detail: 'the replica is gone' })
    await callUnary(session, method.input, method.output, create(method.input, request), {
      method: `/${method.parent.typeName}/${method.name}`,
      timeoutMs,
    })
  }
}

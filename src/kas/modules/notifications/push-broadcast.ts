import { create } from '@bufbuild/protobuf'
import { KasError } from '../../../lib/errors.ts'
import {
  BranchMovedResponseSchema,
  Notifications,
  PushEventResponseSchema,
} from '../../../proto/gen/replica_notifications_pb.ts'
import { type UnaryMethods, unaryService } from '../../../proto/unary.ts'
import type { KasHost } from '../../module.ts'
import type { PushEvent } from '../../repositories/local-pushes.ts'

export type PushBroadcastComponents = Pick<KasHost, 'pushes' | 'repositories' | 'peers'>

/** A push that one replica receives is broadcast to its peers; one that does not acknowledge it finds it by its polls. */
export class PushBroadcast {
  readonly #components: PushBroadcastComponents

  constructor(components: PushBroadcastComponents) {
    this.#components = components
    const { repositories, peers } = components
    repositories.onFound((projectId) => void peers.broadcast(Notifications.method.branchMoved, { projectId }))
  }

  /** Resolves once each peer that can be reached has acknowledged it, or has not within 1 s. */
  async publish(event: PushEvent): Promise<void> {
    const { pushes, peers } = this.#components
    const { projectId, projectPath, id } = event
    const acknowledged = peers.broadcast(Notifications.method.pushEvent, { projectId, projectPath, pushId: id ?? 0n })
    pushes.publish(event) // after: peers get it whatever becomes of it here
    await acknowledged
  }

  /** What peers call. */
  get replicaMethods(): UnaryMethods {
    const { pushes, repositories } = this.#components
    return unaryService(Notifications, {
      pushEvent: async ({ projectId, projectPath, pushId }) => {
        if (projectId <= 0n) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'project_id must be above 0' })
        pushes.publish({ projectId, projectPath, ...(pushId ? { id: pushId } : {}) })
        return create(PushEventResponseSchema)
      },
      branchMoved: async ({ projectId }) => {
        repositories.poke(projectId).catch(() => undefined) // it has been logged, and nobody waits for it
        return create(BranchMovedResponseSchema)
      },
    })
  }
}

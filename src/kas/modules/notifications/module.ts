import { create } from '@bufbuild/protobuf'
import { KasError } from '../../../lib/errors.ts'
import {
  BranchMovedResponseSchema,
  Notifications,
  PushEventResponseSchema,
} from '../../../proto/gen/replica_notifications_pb.ts'
import { unaryService } from '../../../proto/unary.ts'
import type { KasHost, KasModule } from '../../module.ts'
import type { PushEvent } from '../../repositories/local-pushes.ts'
import { notificationsService } from './rails-service.ts'

/**
 * Broadcasts a push to peers, which GitLab announces to one replica. A peer that does not acknowledge it finds it by
 * its polls.
 */
export function createNotifications({ pushes, repositories, peers, clock }: KasHost): KasModule {
  repositories.onFound((projectId) => void peers.broadcast(Notifications.method.branchMoved, { projectId }))
  /** Resolves once each peer in reach has acknowledged the push, or after 1 s. */
  const publish = async (event: PushEvent) => {
    const { projectId, projectPath, id } = event
    const acknowledged = peers.broadcast(Notifications.method.pushEvent, { projectId, projectPath, pushId: id })
    pushes.publish(event) // after the broadcast: peers get it even if this fails
    await acknowledged
  }
  return {
    name: 'notifications',
    railsMethods: notificationsService({ publish, clock }),
    replicaMethods: unaryService(Notifications, {
      pushEvent: async ({ projectId, projectPath, pushId }) => {
        if (projectId <= 0n) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'project_id must be above 0' })
        if (pushId === 0n) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'push_id is missing' })
        pushes.publish({ projectId, projectPath, id: pushId })
        return create(PushEventResponseSchema)
      },
      branchMoved: async ({ projectId }) => {
        repositories.pollAfterNotice(projectId).catch(() => undefined) // the error was logged, and nobody waits for the poll
        return create(BranchMovedResponseSchema)
      },
    }),
  }
}

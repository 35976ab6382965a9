import { randomBytes } from 'node:crypto'
import { create } from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import { withDeadline } from '../../../lib/deadline.ts'
import { KasError } from '../../../lib/errors.ts'
import { abortable } from '../../../lib/signals.ts'
import {
  type GitPushEventRequest,
  GitPushEventResponseSchema,
  Notifications,
} from '../../../proto/gen/notifications_pb.ts'
import { type UnaryMethods, unaryService } from '../../../proto/unary.ts'
import type { PushEvent } from '../../repositories/local-pushes.ts'

export interface NotificationsComponents {
  /** Publishes a push here and to all peers; resolves once each in reach has acknowledged it. */
  readonly publish: (event: PushEvent) => Promise<void>
  readonly clock: Clock
}

/**
 * GitLab waits 5 s for each push of each project. Peers that are later than this find the push by their polls. In ms.
 */
const maxPublishMs = 1000

/** Service Notifications (doc/reference/tunnel-protocol.md 1.11). */
export function notificationsService({ publish, clock }: NotificationsComponents): UnaryMethods {
  const published = async (event: PushEvent) => {
    try {
      await publish(event)
    } catch (cause) {
      throw new KasError({ code: 'PUSH_EVENT_UNTOLD' }, { cause })
    }
  }
  return unaryService(Notifications, {
    gitPushEvent: async (request) => {
      await withDeadline({ ms: maxPublishMs, clock }, async (signal, deadline) => {
        await abortable(published(pushEventOf(request)), signal).catch((error: unknown) => {
          if (!deadline.isPast) throw error
        })
      })
      return create(GitPushEventResponseSchema)
    },
  })
}

function pushEventOf({ event }: GitPushEventRequest): PushEvent {
  const project = event?.project
  if (!project) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'event.project is required' })
  const { id, fullPath } = project
  if (id <= 0n) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'event.project.id must be above 0' })
  if (fullPath === '') throw new KasError({ code: 'INVALID_MESSAGE', detail: 'event.project.full_path is required' })
  return { projectId: id, projectPath: fullPath, id: randomBytes(8).readBigUInt64BE() }
}

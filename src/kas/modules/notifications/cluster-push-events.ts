import type { Logger } from '../../../lib/log.ts'
import type { InstanceId } from '../../../membership/membership.ts'
import type { PushEvent, PushEvents } from '../../repositories/pushes.ts'

export interface ClusterPushEventsComponents {
  /** this replica */
  readonly local: PushEvents
  readonly others: {
    /** those that answer */
    reachable(): readonly InstanceId[]
    /** resolves once the replica has acknowledged the event */
    pushEvent(instance: InstanceId, event: PushEvent): Promise<void>
  }
  readonly log: Logger
}

/** Tells this replica and all that it reaches; one that does not acknowledge finds the push by its polls. */
export class ClusterPushEvents implements PushEvents {
  readonly #components: ClusterPushEventsComponents

  constructor(components: ClusterPushEventsComponents) {
    this.#components = components
  }

  async publish(event: PushEvent): Promise<void> {
    const { local, others, log } = this.#components
    const project_id = String(event.projectId)
    const tell = async (instance: InstanceId) => {
      try {
        await others.pushEvent(instance, event)
      } catch (error) {
        log.debug({ error, project_id, instance }, 'A push could not be told to a replica')
      }
    }
    await Promise.all([local.publish(event), ...others.reachable().map(tell)])
  }
}

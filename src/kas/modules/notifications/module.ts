import type { KasHost, KasModule } from '../../module.ts'
import { PushBroadcast } from './push-broadcast.ts'
import { notificationsService } from './rails-service.ts'

/** GitLab notifies one replica of a push, which broadcasts it. */
export function createNotifications(host: KasHost): KasModule {
  const broadcast = new PushBroadcast(host)
  return {
    name: 'notifications',
    railsMethods: notificationsService({ publish: (event) => broadcast.publish(event), clock: host.clock }),
    replicaMethods: broadcast.replicaMethods,
  }
}

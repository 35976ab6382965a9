import { printable } from '../../../../lib/printable.ts'
import type { Row, ViewState } from '../../../../proto/views-json.ts'
import { clockText } from './verdict-text.ts'

/** Kinds that the API server fails to list. They hold up no command that asks for others. */

/** From what a verdict is made besides the object itself, by `group/Kind`. */
const countedKinds: Readonly<Record<string, readonly string[]>> = {
  'apps/Deployment': ['apps/ReplicaSet', 'Pod'],
  'apps/ReplicaSet': ['Pod'],
  'apps/StatefulSet': ['Pod', 'PersistentVolumeClaim'],
  'apps/DaemonSet': ['Pod'],
  ReplicationController: ['Pod'],
  'batch/CronJob': ['batch/Job', 'Pod'],
  'batch/Job': ['Pod'],
  Service: ['discovery.k8s.io/EndpointSlice', 'Pod'],
  'networking.k8s.io/Ingress': ['Service', 'discovery.k8s.io/EndpointSlice'],
}

/** Whether a row, what its verdict is made from, or its culprit, is of a kind that cannot be listed. */
export function isOfAside({ k, z }: Row, { aside = [] }: ViewState): boolean {
  return aside.some(([kind]) => kind === k || kind === z?.kind || countedKinds[k]?.includes(kind))
}

export function asideText([kind, reason, since]: NonNullable<ViewState['aside']>[number], now: number): string {
  return printable(`${kind} cannot be listed since ${clockText(since, now)}: ${reason}`)
}

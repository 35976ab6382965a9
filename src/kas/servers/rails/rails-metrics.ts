import { Counter } from 'prom-client'
import type { Registry } from '../../../lib/metrics.ts'
import type { UnauthenticatedRefusal } from '../unauthenticated-connections.ts'

const reasons: readonly UnauthenticatedRefusal[] = ['too_slow', 'too_many_connections']

/** @returns callback that counts one */
export function createRailsRefusalMetrics(register: Registry): (reason: UnauthenticatedRefusal) => void {
  const counter = new Counter({
    name: 'kas_api_refused_total',
    help: 'Connections that were refused where GitLab calls, for no call of GitLab came by them',
    labelNames: ['reason'] as const,
    registers: [register],
  })
  for (const reason of reasons) counter.inc({ reason }, 0)
  return (reason) => counter.inc({ reason })
}

/** Services of newer GitLab releases that kas does not have, by package (doc/reference/tunnel-protocol.md 1.16). */
const services: Readonly<Record<string, string>> = {
  'gitlab.agent.managed_resources.rpc.Provisioner': 'Provisioner',
  'gitlab.agent.auto_flow.rpc.AutoFlow': 'AutoFlow',
  'gitlab.agent.events_platform.rpc.EventsPlatform': 'EventsPlatform',
}

/** @returns callback that counts a call of a method */
export function createUnservedMetrics(register: Registry): (method: string) => void {
  const counter = new Counter({
    name: 'kas_gitlab_unserved_calls_total',
    help: 'Calls of GitLab for a service that kas does not have',
    labelNames: ['service'] as const,
    registers: [register],
  })
  for (const service of [...Object.values(services), 'other']) counter.inc({ service }, 0)
  return (method) => {
    const name = method.slice(1, method.lastIndexOf('/'))
    counter.inc({ service: Object.hasOwn(services, name) ? (services[name] as string) : 'other' })
  }
}

import { Counter, Gauge } from 'prom-client'
import type { Registry } from '../lib/metrics.ts'
import { type MembershipMetrics, type MessageKind, messageKinds, publishLimits, refusals } from './protocol/observer.ts'

/** Values that are read at each scrape. */
export interface MembershipCounts {
  /** living instances, this one included */
  members(): number
  /** rows of peers */
  rows(): number
  /** connections in those rows */
  connections(): number
  /** discovery sources that fail at present */
  staleSources(): number
  /** discovery sources that have never answered */
  unansweredSources(): number
}

export function createMembershipMetrics(register: Registry, counts: MembershipCounts): MembershipMetrics {
  const registers = [register]
  const gauge = (name: string, help: string, count: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(count())
      },
    })
  gauge('kas_members', 'Replicas that are known to live, this one included', counts.members)
  gauge('kas_rows', 'Rows of other replicas in the table', counts.rows)
  gauge('kas_row_connections', 'Connections of agents at other replicas, by the table', counts.connections)
  gauge('kas_discovery_sources_stale', 'Discovery sources that fail at present', counts.staleSources)
  gauge('kas_discovery_sources_silent', 'Discovery sources that have never answered', counts.unansweredSources)
  const counter = <Label extends string>(name: string, help: string, labelName: Label) =>
    new Counter({ name, help, labelNames: [labelName], registers })
  const refused = counter('kas_gossip_refused_total', 'What peers sent or wanted, and was refused', 'reason')
  const published = counter('kas_gossip_published_total', 'Gossip messages about the own row', 'kind')
  const received = counter('kas_gossip_received_total', 'Gossip messages about the rows of others', 'kind')
  const pulls = counter('kas_row_pulls_total', 'Rows that were asked of their owners', 'result')
  const limited = counter('kas_row_held_back_total', 'Changes of agents that are not published to others', 'reason')
  for (const reason of refusals) refused.inc({ reason }, 0)
  for (const reason of publishLimits) limited.inc({ reason }, 0)
  for (const counted of [published, received]) {
    for (const kind of messageKinds) counted.inc({ kind: labelOf(kind) }, 0)
  }
  for (const result of ['ok', 'failed']) pulls.inc({ result }, 0)
  return {
    refused: (reason) => refused.inc({ reason }),
    published: (kind) => published.inc({ kind: labelOf(kind) }),
    received: (kind) => received.inc({ kind: labelOf(kind) }),
    pulled: (result) => pulls.inc({ result }),
    publishLimited: (reason) => limited.inc({ reason }),
  }
}

/** Returns the label of a kind. Dashboards use the heartbeat's name on the wire. */
function labelOf(kind: MessageKind): string {
  return kind === 'heartbeat' ? 'beat' : kind
}

/** Metrics that count nothing. */
export const noMetrics: MembershipMetrics = {
  refused: () => undefined,
  published: () => undefined,
  received: () => undefined,
  pulled: () => undefined,
  publishLimited: () => undefined,
}

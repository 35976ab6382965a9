import { viewsFeature } from '../../../proto/views-json.ts'
import type { KasHost, KasModule } from '../../module.ts'
import { viewsEndpoint } from './api/views-endpoint.ts'
import { Feeds } from './feed/feeds.ts'
import { graphEndpoint } from './graph/graph-endpoint.ts'
import { ReportedFacts, type ReportsOptions, reportMethod, serveReports } from './reports.ts'
import { createViewsMetrics } from './views-metrics.ts'

/** bytes of a message with facts */
const maxMessageBytes = 16 * 1024
/** Reports of an agent (`method_calls_of_agent`): the leading pod keeps one open, two while the leader changes. */
const maxPerAgent = 20
/** agentk reports at most once a second, some hundred bytes. */
const rate = { perSecond: 50, burst: 500, cost: { call: 1, message: 1, kib: 1 } }

/** Views of agents' clusters, for callers with permission (doc/guide/views.md). */
export function createViews(host: KasHost, options: Pick<ReportsOptions, 'pollMs'>): KasModule {
  const { agentConfig, localDirectory, forward, serves, away, clock, register } = host
  const log = host.log.child({ mod_name: 'views' })
  const metrics = createViewsMetrics(register, () => feeds.views)
  const feeds: Feeds = new Feeds({ forward, serves, away, metrics, clock, random: Math.random, log })
  const facts = new ReportedFacts()
  const serve = serveReports({ agentConfig, localDirectory, facts, clock, log }, options)
  return {
    name: 'views',
    features: [viewsFeature],
    agentMethods: {
      [reportMethod]: { type: 'bidi_stream', patient: true, maxMessageBytes, maxPerAgent, rate, serve },
    },
    endpoints: [viewsEndpoint(feeds), graphEndpoint({ feeds, clock })],
    services: [feeds],
    status: () => [['views open', feeds.views], ['agents followed', feeds.agents], ...facts.lines()],
  }
}

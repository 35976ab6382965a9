import { Registry } from 'prom-client'
import type { Test } from 'tap'
import {
  type AgentFeedComponents,
  type AgentFeedOptions,
  defaultAgentFeed,
} from '../../src/kas/modules/views/feed/agent-feed.ts'
import { Feeds } from '../../src/kas/modules/views/feed/feeds.ts'
import { createViewsMetrics } from '../../src/kas/modules/views/views-metrics.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { createLogger } from '../../src/lib/log.ts'

/** Starts the views of a replica, over its connections to agents. */
export function startFeeds(
  t: Test,
  components: Pick<AgentFeedComponents, 'forward' | 'serves'> & Partial<AgentFeedComponents>,
  options: Partial<AgentFeedOptions> = {},
) {
  const register = new Registry()
  const metrics = createViewsMetrics(register, () => feeds.views)
  const log = createLogger({ level: 'silent' })
  const feeds: Feeds = new Feeds(
    { metrics, clock: systemClock, random: () => 0, log, away: () => undefined, ...components },
    { ...defaultAgentFeed, ...options },
  )
  t.teardown(() => feeds.stop())
  return { feeds, register }
}

import type { AgentId } from '../../../../call/call.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Service } from '../../../../lib/service.ts'
import { AgentFeed, type AgentFeedComponents, type AgentFeedOptions, defaultAgentFeed } from './agent-feed.ts'
import type { OpenView, Viewer, WantedView } from './view.ts'

/** The feeds of agents with open views. */
export class Feeds implements Service {
  readonly #components: AgentFeedComponents
  readonly #options: AgentFeedOptions
  readonly #feeds = new Map<AgentId, AgentFeed>()
  #hasStopped = false

  constructor(components: AgentFeedComponents, options: AgentFeedOptions = defaultAgentFeed) {
    this.#components = components
    this.#options = options
  }

  /** Agents that are followed. */
  get agents(): number {
    return this.#feeds.size
  }

  /** Views that are open. */
  get views(): number {
    let views = 0
    for (const { size } of this.#feeds.values()) views += size
    return views
  }

  /** @throws KasError TOO_MANY_STREAMS, SHUTTING_DOWN */
  open(agentId: AgentId, wanted: WantedView, viewer: Viewer): OpenView {
    if (this.#hasStopped) throw new KasError({ code: 'SHUTTING_DOWN' })
    const feed = this.#feeds.get(agentId) ?? this.#create(agentId)
    return feed.open(wanted, viewer)
  }

  async start(): Promise<void> {}

  async stop(): Promise<void> {
    this.#hasStopped = true
    await Promise.all([...this.#feeds.values()].map((feed) => feed.stop()))
  }

  #create(agentId: AgentId): AgentFeed {
    const onEnd = () => void this.#feeds.delete(agentId)
    const feed = new AgentFeed(agentId, this.#components, { ...this.#options, onEnd })
    this.#feeds.set(agentId, feed)
    return feed
  }
}

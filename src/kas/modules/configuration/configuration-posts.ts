import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Service } from '../../../lib/service.ts'
import { detached } from '../../../lib/tracing/tracer.ts'
import type { Agent } from '../../agent.ts'
import type { AgentConfiguration } from '../../agent-config/agent-config-reader.ts'
import type { Gitlab } from '../../directory/gitlab.ts'
import type { KasHost } from '../../module.ts'
import type { CommitId } from '../../repositories/repositories.ts'

export interface ConfigurationPostsComponents {
  readonly agentConfig: Pick<KasHost['agentConfig'], 'newest' | 'refreshed' | 'onChange'>
  readonly gitlab: Pick<Gitlab, 'takeConfiguration'>
  readonly leads: KasHost['leads']
  readonly clock: Clock
  readonly log: Logger
}

export interface ConfigurationPostsOptions {
  /** from the first failed post in a row to the next, in ms; doubles up to the last */
  readonly retryMs?: readonly [first: number, last: number]
}

const defaultRetryMs = [10_000, 300_000] as const
/** Failures in a row after which the lead passes to the next replica. */
const failuresUntilPassedOn = 3
/** Age in ms beyond which a configuration is read again at the end of its post: it may be outdated. */
const recentMs = 5000

/**
 * Posts the configuration of each agent that is connected here to GitLab, after each change, while this replica leads
 * for it (doc/reference/gitlab-contract.md 9.1 no. 9). A failed read is followed by no post. The last post is the
 * newest configuration, even if other replicas post too.
 */
export class ConfigurationPosts implements Service {
  readonly #components: ConfigurationPostsComponents
  readonly #retryMs: readonly [first: number, last: number]
  readonly #stopped = new AbortController()
  readonly #agents = new Map<AgentId, { readonly posts: AgentPosts; followers: number }>()
  /** posts of agents that have left */
  readonly #ending = new Set<Promise<void>>()

  constructor(components: ConfigurationPostsComponents, { retryMs }: ConfigurationPostsOptions = {}) {
    this.#components = components
    this.#retryMs = retryMs ?? defaultRetryMs
  }

  async start(): Promise<void> {}

  async stop(): Promise<void> {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
    for (const { posts } of this.#agents.values()) this.#end(posts)
    this.#agents.clear()
    await Promise.all(this.#ending)
  }

  /** Follows a connected agent, until the returned function is called. */
  follow(agent: Agent): () => void {
    const known = this.#agents.get(agent.id) ?? this.#begin(agent)
    known.followers++
    let isConnected = true
    return () => {
      if (!isConnected) return
      isConnected = false
      if (--known.followers > 0) return
      if (this.#agents.get(agent.id) === known) this.#agents.delete(agent.id)
      this.#end(known.posts)
    }
  }

  #end(posts: AgentPosts): void {
    const ended = posts.stop().then(() => void this.#ending.delete(ended))
    this.#ending.add(ended)
  }

  #begin(agent: Agent) {
    const posts = new AgentPosts(this.#components, { agent, retryMs: this.#retryMs, signal: this.#stopped.signal })
    const known = { posts, followers: 0 }
    this.#agents.set(agent.id, known)
    return known
  }
}

/** The posts for one agent, one at a time. */
class AgentPosts {
  readonly #components: ConfigurationPostsComponents
  readonly #agent: Agent
  readonly #retryMs: readonly [first: number, last: number]
  readonly #signal: AbortSignal
  readonly #detach: (() => void)[]
  /** the last post of this replica, since it took the lead */
  #posted: CommitId | undefined
  #running: Promise<void> | undefined
  #again = false
  #failures = 0
  #cancelRetry: (() => void) | undefined
  #isStopped = false

  constructor(
    components: ConfigurationPostsComponents,
    options: { agent: Agent; retryMs: readonly [first: number, last: number]; signal: AbortSignal },
  ) {
    const { agent, retryMs, signal } = options
    this.#components = components
    this.#agent = agent
    this.#retryMs = retryMs
    this.#signal = signal
    this.#detach = [
      components.agentConfig.onChange(agent, () => this.#schedule()),
      components.leads.onChange(agent.id, () => this.#leadMayHaveChanged()),
    ]
    this.#schedule()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelRetry?.()
    for (const detach of this.#detach) detach()
    await this.#running
  }

  /** Schedules a post. While GitLab fails, changes of the table do not hasten it. */
  #leadMayHaveChanged(): void {
    if (!this.#leads() || this.#cancelRetry === undefined) this.#schedule()
  }

  #schedule(): void {
    this.#cancelRetry?.()
    this.#cancelRetry = undefined
    if (this.#isStopped || !this.#leads()) return
    this.#again = true
    this.#running ??= detached(() => this.#run())
  }

  #leads(): boolean {
    const leads = this.#components.leads.leads(this.#agent.id)
    if (!leads) this.#posted = undefined // another replica may post meanwhile: a new lead never skips its first post
    return leads
  }

  async #run(): Promise<void> {
    await Promise.resolve() // `#running` is set by then
    while (this.#again && !this.#isStopped) {
      this.#again = false
      try {
        await this.#postNewest()
        this.#failures = 0
      } catch (cause) {
        if (!this.#signal.aborted) this.#failed(KasError.from(cause))
      }
    }
    this.#running = undefined
  }

  /**
   * Posts the newest configuration. It is read again if time has passed: while this replica was frozen, another may
   * have led.
   */
  async #postNewest(): Promise<void> {
    let unposted = await this.#unposted('newest')
    if (unposted && !this.#isRecent(unposted)) unposted = await this.#unposted('refreshed')
    if (!unposted || this.#isStopped || !this.#leads()) return
    const { gitlab, log } = this.#components
    const { id } = this.#agent
    for (let next: AgentConfiguration | undefined = unposted; next; ) {
      const outcome = await gitlab.takeConfiguration(id, next.configuration.raw, this.#signal)
      this.#posted = next.commit
      log.debug({ agent_id: String(id), commit_id: next.commit, outcome }, 'Configuration posted to GitLab')
      // also if another replica leads by now: it may have posted a newer one before
      next = this.#isRecent(next) ? undefined : await this.#unposted('refreshed')
    }
  }

  #isRecent({ seenAt }: AgentConfiguration): boolean {
    return this.#components.clock.now() - seenAt < recentMs
  }

  /** Undefined: GitLab has the newest configuration, or it cannot be read. */
  async #unposted(how: 'newest' | 'refreshed'): Promise<AgentConfiguration | undefined> {
    try {
      const { agentConfig } = this.#components
      const read = await (how === 'newest'
        ? agentConfig.newest(this.#agent, this.#signal, false)
        : agentConfig.refreshed(this.#agent, this.#signal))
      return read && read.commit !== this.#posted ? read : undefined
    } catch (error) {
      if (this.#signal.aborted) throw error
      return undefined // the read has logged it; the next successful one is posted
    }
  }

  #failed(error: KasError): void {
    if (this.#isStopped) return
    this.#again = false // the next try posts the newest configuration
    const [first, last] = this.#retryMs
    const ms = Math.min(first * 2 ** this.#failures++, last)
    const fields = { error, agent_id: String(this.#agent.id) }
    this.#components.log.warn(fields, 'A configuration could not be posted to GitLab: tried again later')
    this.#cancelRetry = this.#components.clock.after(ms, () => this.#schedule())
    if (this.#failures >= failuresUntilPassedOn) this.#components.leads.passOn(this.#agent.id)
  }
}

import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KeyedListeners } from '../../../lib/listeners.ts'
import type { PushEvent, Pushes } from '../../repositories/local-pushes.ts'

/** A push as replicas exchange it. */
export interface KnownPush {
  readonly projectId: bigint
  readonly projectPath: string
  readonly id: bigint
  /** since it was received */
  readonly ageMs: number
}

/** The newest push to a project. */
export interface RecentPush extends PushEvent {
  readonly id: bigint
  /** in milliseconds since 1970 */
  readonly receivedAt: number
  /** agents that this replica has notified */
  readonly notified: Set<AgentId>
}

export interface RecentPushesOptions {
  /**
   * time that a push is remembered: the longest that an agent stays away after an error
   * (doc/reference/tunnel-protocol.md 2.5), in ms
   */
  readonly rememberMs: number
  /** projects whose newest push is remembered; the oldest pushes make room */
  readonly maxProjects: number
}

const defaultRecentPushes: RecentPushesOptions = { rememberMs: 300_000, maxProjects: 10_000 }

/** A push that listeners are notified of. */
export interface NotifiedPush {
  readonly push: RecentPush
  /** true: an earlier notification may not have reached the agent; only its listeners are called */
  readonly again: boolean
}

/** Remembers pushes for a while, so that an agent that was reconnecting is notified too. */
export class RecentPushes {
  readonly #clock: Clock
  readonly #options: RecentPushesOptions
  /** by path, in the order in which they were received */
  readonly #pushes = new Map<string, RecentPush>()
  readonly #listeners = new KeyedListeners<AgentId, NotifiedPush>()

  constructor(
    components: { readonly pushes: Pick<Pushes, 'onPush'>; readonly clock: Clock },
    options: RecentPushesOptions = defaultRecentPushes,
  ) {
    this.#clock = components.clock
    this.#options = options
    components.pushes.onPush((push) => this.#add(push))
  }

  /** Calls `listener`, of a stream of the agent, for each push, until the returned function is called. */
  onPush(agentId: AgentId, listener: (notified: NotifiedPush) => void): () => void {
    return this.#listeners.add(agentId, listener)
  }

  /** Lists the newest push of each project, the oldest first. */
  recent(): Iterable<RecentPush> {
    this.#forget()
    return this.#pushes.values()
  }

  /** Lists the same pushes for a peer. */
  known(): KnownPush[] {
    const now = this.#clock.now()
    return Array.from(this.recent(), ({ projectId, projectPath, id, receivedAt }) => {
      return { projectId, projectPath, id, ageMs: Math.max(0, now - receivedAt) } // the clock may have been set back
    })
  }

  /** Adds pushes of a peer that this replica has missed: it was not running, or not in reach. */
  learn(pushes: readonly KnownPush[]): void {
    const now = this.#clock.now()
    const learnt: RecentPush[] = []
    for (const { ageMs, ...push } of pushes) {
      const receivedAt = now - ageMs
      const own = this.#pushes.get(push.projectPath)
      if (own && (own.id === push.id || own.receivedAt >= receivedAt)) continue
      learnt.push({ ...push, receivedAt, notified: new Set() })
    }
    if (learnt.length === 0) return
    for (const push of learnt) {
      this.#pushes.delete(push.projectPath)
      this.#pushes.set(push.projectPath, push)
    }
    const sorted = [...this.#pushes.values()].sort((a, b) => a.receivedAt - b.receivedAt)
    this.#pushes.clear()
    for (const push of sorted) this.#pushes.set(push.projectPath, push)
    this.#forget()
    for (const push of learnt) {
      if (this.#pushes.get(push.projectPath) === push) this.#notify(push)
    }
  }

  /** Notifies the agent again of a push whose notification may not have arrived. */
  resend(push: RecentPush, agentId: AgentId): void {
    if (!push.notified.delete(agentId)) return // another stream of the agent did so already
    this.#forget()
    if (this.#pushes.get(push.projectPath) !== push) return // a newer push replaced it
    this.#listeners.notify(agentId, { push, again: true })
  }

  isRecent({ receivedAt }: RecentPush): boolean {
    const age = this.#clock.now() - receivedAt
    return age >= 0 && age < this.#options.rememberMs
  }

  #add({ projectId, projectPath, id }: PushEvent): void {
    const push = {
      projectId,
      projectPath,
      id,
      receivedAt: this.#clock.now(),
      notified: new Set<AgentId>(),
    }
    this.#pushes.delete(projectPath) // to the end: the newest
    this.#pushes.set(projectPath, push)
    this.#forget()
    this.#notify(push)
  }

  #notify(push: RecentPush): void {
    this.#listeners.notifyAll({ push, again: false })
  }

  #forget(): void {
    for (const [path, push] of this.#pushes) {
      if (this.isRecent(push) && this.#pushes.size <= this.#options.maxProjects) return
      this.#pushes.delete(path)
    }
  }
}

import type { AgentId } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { AgentShare, type PublishLimit } from './agent-share.ts'
import type { OwnRow } from './own-row.ts'
import { checkItem, type RowItem } from './row.ts'

const secondMs = 1000
const noPods: ReadonlySet<string> = new Set()

export interface AgentSharesComponents {
  readonly clock: Clock
  readonly own: OwnRow
  /** called if `gather` has work */
  due(): void
  /** called if the agent's `pods` have changed */
  podsChanged(agentId: AgentId): void
  /** called if data of the agent is not published, at least for now */
  publishLimited(agentId: AgentId, limit: PublishLimit): void
}

/**
 * Divides the own row among the agents that are here. Items enter the row when it is next published, so that items that
 * are added and removed in between cost the other replicas nothing.
 */
export class AgentShares {
  readonly #components: AgentSharesComponents
  readonly #shares = new Map<AgentId, AgentShare>()
  /** agents by item id */
  readonly #agentIds = new Map<string, AgentId>()
  readonly #due = new Set<AgentId>()
  readonly #busy = new Map<AgentId, AgentShare>()
  #cancel: (() => void) | undefined
  #running = true

  constructor(components: AgentSharesComponents) {
    this.#components = components
  }

  stop(): void {
    this.#running = false
    this.#cancel?.()
  }

  /**
   * Adds an item, or replaces the one with its id.
   *
   * @param item - its id stays the agent's for ever
   * @returns false: the agent has too many, so it is not kept; it may be offered again later
   * @throws KasError INVALID_MESSAGE if the item is out of bounds
   */
  put(item: RowItem): boolean {
    checkItem(item)
    const { id, agentId } = item
    const share = this.#shares.get(agentId) ?? new AgentShare(this.#components.own)
    const pod = share.podOf(id)
    if (!share.put(item)) {
      this.#components.publishLimited(agentId, 'share')
      return false
    }
    this.#shares.set(agentId, share)
    this.#agentIds.set(id, agentId)
    this.#markDue(agentId)
    if (share.podOf(id) !== pod) this.#components.podsChanged(agentId)
    return true
  }

  remove(id: string): void {
    const agentId = this.#agentIds.get(id)
    if (agentId === undefined) return
    this.#agentIds.delete(id)
    const share = this.#shares.get(agentId)
    const pod = share?.podOf(id)
    share?.remove(id)
    this.#markDue(agentId)
    if (pod) this.#components.podsChanged(agentId)
  }

  /** Names of the agent's pods that are published, or about to be. */
  pods(agentId: AgentId): ReadonlySet<string> {
    return this.#shares.get(agentId)?.pods() ?? noPods
  }

  /** Puts the waiting items into the row. */
  gather(): void {
    const { podsChanged, publishLimited } = this.#components
    const due = [...this.#due]
    this.#due.clear()
    for (const agentId of due) {
      const share = this.#shares.get(agentId)
      if (!share) continue
      const settled = share.settle()
      if (settled.otherBlocked) podsChanged(agentId)
      for (const limit of settled.limitedBy) publishLimited(agentId, limit)
      if (share.isBusy) this.#busy.set(agentId, share)
      if (share.isEmpty) this.#shares.delete(agentId)
    }
    this.#awaitTick()
  }

  #markDue(agentId: AgentId): void {
    this.#due.add(agentId)
    this.#components.due()
  }

  #awaitTick(): void {
    if (this.#running && this.#busy.size > 0)
      this.#cancel ??= this.#components.clock.after(secondMs, () => this.#tick())
  }

  #tick(): void {
    this.#cancel = undefined
    for (const [agentId, share] of this.#busy) {
      share.tick()
      if (share.isDue) this.#markDue(agentId)
      if (!share.isBusy) this.#busy.delete(agentId)
      if (share.isEmpty) this.#shares.delete(agentId)
    }
    this.#awaitTick()
  }
}

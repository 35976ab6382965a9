import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Agent } from '../../agent.ts'
import { isCommitId, type Reading } from '../../repositories/repositories.ts'
import type { SharedPolls } from '../../repositories/shared-polls.ts'

export interface PeerFollowsComponents {
  readonly polls: Pick<SharedPolls, 'followForPeer'>
  readonly clock: Clock
}

/** A peer says each minute what it follows: two words may be lost. ms */
export const followedForMs = 150_000
/** Of all peers: what is beyond they poll themselves. */
const maxBranches = 10_000

interface Followed {
  readonly end: () => void
  /** by the clock */
  until: number
}

/** Branches that peers follow, and that are followed here for as long as they say so. */
export class PeerFollows {
  readonly #components: PeerFollowsComponents
  readonly #branches = new Map<string, Followed>()
  #cancelSweep: (() => void) | undefined
  #hasStopped = false

  constructor(components: PeerFollowsComponents) {
    this.#components = components
  }

  get size(): number {
    return this.#branches.size
  }

  /** A peer follows it. @returns false: it is not followed here: there are too many, or all have ended */
  renew({ id, project, ref }: Reading): boolean {
    const key = `${project.id} ${ref ?? ''}`
    const until = this.#components.clock.now() + followedForMs
    const known = this.#branches.get(key)
    if (known) {
      known.until = until
      return true
    }
    if (this.#hasStopped || this.#branches.size >= maxBranches) return false
    this.#branches.set(key, { end: this.#components.polls.followForPeer({ id, project, ref }), until })
    this.#cancelSweep ??= this.#components.clock.after(followedForMs, () => this.#sweep())
    return true
  }

  stop(): void {
    this.#hasStopped = true
    this.#cancelSweep?.()
    for (const { end } of this.#branches.values()) end()
    this.#branches.clear()
  }

  #sweep(): void {
    const now = this.#components.clock.now()
    let next = Number.POSITIVE_INFINITY
    for (const [key, { end, until }] of this.#branches) {
      if (until > now) next = Math.min(next, until)
      else {
        this.#branches.delete(key)
        end()
      }
    }
    const { clock } = this.#components
    this.#cancelSweep = this.#branches.size > 0 ? clock.after(next - now, () => this.#sweep()) : undefined
  }
}

/** What git takes for the full name of a branch or a tag. */
const refName = /^refs\/(?:heads|tags)\/[^\p{Cc} ~^:?*[\\]{1,250}$/u

/** As a peer says it. @returns undefined: nothing that moves */
export function readingOf(branch: {
  readonly agentId: bigint
  readonly projectId: bigint
  readonly ref: string
}): Reading | undefined {
  const project: Agent['project'] = { id: branch.projectId, path: String(branch.projectId) }
  const id = branch.agentId as AgentId
  if (branch.ref === '') return { id, project }
  return refName.test(branch.ref) ? { id, project, ref: branch.ref } : undefined
}

/** A commit stays where it is: nobody has to poll it. */
export function moves({ ref }: Pick<Reading, 'ref'>): boolean {
  return ref === undefined || !isCommitId(ref)
}

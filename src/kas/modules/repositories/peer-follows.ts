import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Agent } from '../../agent.ts'
import { isCommitId, type Reading } from '../../repositories/repositories.ts'
import type { SharedPolls } from '../../repositories/shared-polls.ts'

export interface PeerFollowsComponents {
  readonly polls: Pick<SharedPolls, 'followForPeer'>
  readonly clock: Clock
}

/** Time that an announcement of a peer counts, in ms. A peer repeats it each minute: two may be lost. */
export const followedForMs = 150_000
/** Branches of all peers; the peers poll further ones themselves. */
const maxBranches = 10_000

interface Followed {
  readonly end: () => void
  /** by the clock */
  until: number
}

/** Branches that peers follow. They are followed here as long as the peers announce them. */
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

  /** Follows a branch for a peer. @returns false: it is not followed here: there are too many, or this replica stops */
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

/** Full names of branches and tags that git permits. */
const refName = /^refs\/(?:heads|tags)\/[^\p{Cc} ~^:?*[\\]{1,250}$/u

/** Converts a peer's announcement. @returns undefined: the ref never moves, or is invalid */
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

/** True unless the ref is a commit, which needs no polls. */
export function moves({ ref }: Pick<Reading, 'ref'>): boolean {
  return ref === undefined || !isCommitId(ref)
}

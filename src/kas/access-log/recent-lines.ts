import { Listeners } from '../../lib/listeners.ts'
import { SharedHistory } from '../../lib/shared-history.ts'
import type { AccessLine } from './access-line.ts'
import { isNamedUser } from './named-user.ts'

/** Selects lines; absent parts select any. */
export interface LineFilter {
  readonly agent?: string | undefined
  /** user, in the form of `isNamedUser` */
  readonly user?: string | undefined
  /** lines of this user, and of the jobs that this user has started */
  readonly userId?: string | undefined
  readonly verb?: string | undefined
  /** earliest time, as in a line */
  readonly since?: string | undefined
}

/** A line, with the fields that filters compare. */
interface Kept {
  /** number of the line since the start */
  readonly number: number
  /** source that loses a line if it has most */
  readonly source: string
  readonly text: string
  readonly time: string
  readonly agent: string | undefined
  readonly user: AccessLine['caller']
  readonly verb: string | undefined
}

/** Bound of the last lines of this replica, for `kas log`. */
export const maxRecentLines = 10_000
/** Bound of the bytes of these lines. */
export const maxRecentBytes = 16 * 1024 * 1024

/** Bound of the newest lines that one user gets by `kas log --kubeconfig`. */
export const maxOwnLines = 1000

/** Last lines of a replica. If there is no room for another one, the source with most loses its oldest. */
export class RecentLines {
  /** lines by number, the oldest first */
  readonly #lines = new Map<number, Kept>()
  readonly #history = new SharedHistory<Kept>({
    maxWeight: maxRecentBytes * maxRecentLines,
    weightOf: ({ text }) => Math.max(text.length * maxRecentLines, maxRecentBytes), // larger part of a bound
    lost: ({ number }) => this.#lines.delete(number),
  })
  /** lines since the start: number of the next one */
  #total = 0
  readonly #followers = new Listeners<Kept>()

  add(line: AccessLine, text: string): void {
    const { agent_id: agent, caller, verb } = line
    const kept = { number: this.#total, source: sourceOf(line), text, time: line.time, agent, user: caller, verb }
    this.#total += 1
    this.#lines.set(kept.number, kept)
    this.#history.add(kept)
    this.#followers.notify(kept)
  }

  /** All matching lines, the oldest first. */
  matching(filter: LineFilter): readonly string[] {
    return this.page(filter, { from: 0, last: 0, maxBytes: maxRecentBytes }).lines
  }

  /**
   * Reads as many matching lines as `maxBytes` has room for, and at least one, the oldest first.
   *
   * @param asked.from - number of the first line that is read
   * @param asked.last - only this many of the newest matching lines; 0: all
   * @returns `next`: number to go on from; `isWhole`: there are no more now
   */
  page(
    filter: LineFilter,
    { from, last, maxBytes }: { readonly from: number; readonly last: number; readonly maxBytes: number },
  ): { readonly lines: readonly string[]; readonly next: number; readonly isWhole: boolean } {
    const fits = fitsTo(filter)
    const found = [...this.#lines.values()].filter((kept) => kept.number >= from && fits(kept)).slice(-last)
    const lines: string[] = []
    let bytes = 0
    for (const { number, text } of found) {
      if (lines.length > 0 && bytes + text.length > maxBytes) return { lines, next: number, isWhole: false }
      lines.push(text)
      bytes += text.length
    }
    return { lines, next: this.#total, isWhole: true }
  }

  /** Calls `listener` with matching lines from now on, until the returned function is called. */
  follow(filter: LineFilter, listener: (text: string) => void): () => void {
    const fits = fitsTo(filter)
    return this.#followers.add((kept) => {
      if (fits(kept)) listener(kept.text)
    })
  }
}

/**
 * Source of a line. Agents and strangers may have any number of names, so all agents are one source, and all strangers
 * are another.
 */
function sourceOf({ event, caller }: AccessLine): string {
  if (caller) return `user ${caller.id}`
  return event === 'agent_connected' || event === 'agent_disconnected' ? 'agents' : 'others'
}

function fitsTo({ agent, user, userId, verb, since }: LineFilter): (kept: Kept) => boolean {
  const isUser = user === undefined ? undefined : isNamedUser([user])
  return (kept) =>
    (agent === undefined || kept.agent === agent) &&
    (!isUser || (kept.user !== undefined && isUser(kept.user))) &&
    (userId === undefined || kept.user?.id === userId) &&
    (verb === undefined || kept.verb === verb) &&
    (since === undefined || kept.time >= since)
}

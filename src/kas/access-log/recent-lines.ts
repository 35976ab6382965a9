import { Listeners } from '../../lib/listeners.ts'
import type { AccessLine } from './access-line.ts'
import { isNamedUser } from './named-user.ts'

/** Which lines are wanted; absent: any. */
export interface LineFilter {
  readonly agent?: string | undefined
  /** as `isNamedUser` takes it */
  readonly user?: string | undefined
  /** of this user, and of the jobs that this user has started */
  readonly userId?: string | undefined
  readonly verb?: string | undefined
  /** not before, as in a line */
  readonly since?: string | undefined
}

/** A line, and what filters compare. */
interface Kept {
  readonly text: string
  readonly time: string
  readonly agent: string | undefined
  readonly user: AccessLine['caller']
  readonly verb: string | undefined
}

/** The last lines of this replica, for `kas log`. */
export const maxRecentLines = 10_000
export const maxRecentBytes = 16 * 1024 * 1024

/** So many of the newest lines one user gets by `kas log --kubeconfig`. */
export const maxOwnLines = 1000

export class RecentLines {
  /** by number, from the first that is kept */
  readonly #lines: (Kept | undefined)[] = []
  #next = 0
  #count = 0
  /** that were ever added: the number of the next one */
  #total = 0
  #bytes = 0
  readonly #followers = new Listeners<Kept>()

  add(line: AccessLine, text: string): void {
    const { agent_id: agent, caller, verb } = line
    const kept = { text, time: line.time, agent, user: caller, verb }
    while (this.#count > 0 && (this.#count >= maxRecentLines || this.#bytes + text.length > maxRecentBytes))
      this.#forgetFirst()
    this.#lines[this.#next] = kept
    this.#next = (this.#next + 1) % maxRecentLines
    this.#count += 1
    this.#total += 1
    this.#bytes += text.length
    this.#followers.notify(kept)
  }

  /** All that fit, the oldest first. */
  matching(filter: LineFilter): readonly string[] {
    return this.page(filter, { from: 0, last: 0, maxBytes: maxRecentBytes }).lines
  }

  /**
   * Reads as many matching lines as `maxBytes` has room for, and one at least, the oldest first.
   *
   * @param asked.from - number of the first line that is read
   * @param asked.last - the newest of those that fit; 0: all
   * @returns `next`: from where to go on; `isWhole`: there are no more now
   */
  page(
    filter: LineFilter,
    { from, last, maxBytes }: { readonly from: number; readonly last: number; readonly maxBytes: number },
  ): { readonly lines: readonly string[]; readonly next: number; readonly isWhole: boolean } {
    const fits = fitsTo(filter)
    const oldest = Math.max(from, this.#total - this.#count)
    const begin = last === 0 ? oldest : this.#firstOfLast(fits, oldest, last)
    const lines: string[] = []
    let bytes = 0
    for (let number = begin; number < this.#total; number++) {
      const kept = this.#line(number)
      if (!kept || !fits(kept)) continue
      if (lines.length > 0 && bytes + kept.text.length > maxBytes) return { lines, next: number, isWhole: false }
      lines.push(kept.text)
      bytes += kept.text.length
    }
    return { lines, next: this.#total, isWhole: true }
  }

  #firstOfLast(fits: (kept: Kept) => boolean, oldest: number, last: number): number {
    let found = 0
    for (let number = this.#total - 1; number >= oldest; number--) {
      const kept = this.#line(number)
      if (kept && fits(kept) && ++found === last) return number
    }
    return oldest
  }

  /** @param number - of one that is kept */
  #line(number: number): Kept | undefined {
    const back = this.#total - number
    return this.#lines[(this.#next - back + 2 * maxRecentLines) % maxRecentLines]
  }

  /** Calls `listener` with those that fit from now on, until the returned function is called. */
  follow(filter: LineFilter, listener: (text: string) => void): () => void {
    const fits = fitsTo(filter)
    return this.#followers.add((kept) => {
      if (fits(kept)) listener(kept.text)
    })
  }

  #forgetFirst(): void {
    const first = (this.#next - this.#count + maxRecentLines) % maxRecentLines
    this.#bytes -= this.#lines[first]?.text.length ?? 0
    this.#lines[first] = undefined
    this.#count -= 1
  }
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

import { Listeners } from '../../lib/listeners.ts'
import type { AccessLine } from './access-line.ts'
import { isNamedUser } from './named-user.ts'

/** Which lines are wanted; absent: any. */
export interface LineFilter {
  readonly agent?: string | undefined
  /** as `isNamedUser` takes it */
  readonly user?: string | undefined
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

export class RecentLines {
  /** by number, from the first that is kept */
  readonly #lines: (Kept | undefined)[] = []
  #next = 0
  #count = 0
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
    this.#bytes += text.length
    this.#followers.notify(kept)
  }

  /** Those that fit, the oldest first. */
  *matching(filter: LineFilter): Generator<string, void, void> {
    const fits = fitsTo(filter)
    const first = this.#next - this.#count + maxRecentLines
    for (let i = 0; i < this.#count; i++) {
      const kept = this.#lines[(first + i) % maxRecentLines]
      if (kept && fits(kept)) yield kept.text
    }
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

function fitsTo({ agent, user, verb, since }: LineFilter): (kept: Kept) => boolean {
  const isUser = user === undefined ? undefined : isNamedUser([user])
  return (kept) =>
    (agent === undefined || kept.agent === agent) &&
    (!isUser || (kept.user !== undefined && isUser(kept.user))) &&
    (verb === undefined || kept.verb === verb) &&
    (since === undefined || kept.time >= since)
}

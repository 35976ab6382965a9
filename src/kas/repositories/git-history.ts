import { abortable } from '../../lib/signals.ts'
import type { CommitId } from './repositories.ts'

interface History {
  readonly head: CommitId
  readonly commits: Promise<ReadonlySet<string>>
}

/** The newest commits of one branch. They are read once per head and kept for the latest requested head. */
export class GitHistory {
  readonly #read: (head: CommitId) => Promise<ReadonlySet<string>>
  #known: History | undefined

  constructor(read: (head: CommitId) => Promise<ReadonlySet<string>>) {
    this.#read = read
  }

  /** Returns the ids of `head` and of commits before it. @throws errors of `read`; the signal's reason */
  async upTo(head: CommitId, signal: AbortSignal): Promise<ReadonlySet<string>> {
    if (this.#known?.head !== head) {
      const begun: History = { head, commits: this.#read(head) }
      this.#known = begun
      begun.commits.catch(() => {
        if (this.#known === begun) this.#known = undefined // the next call reads it again
      })
    }
    return await abortable(this.#known.commits, signal)
  }
}

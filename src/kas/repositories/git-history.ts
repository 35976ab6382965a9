import { abortable } from '../../lib/signals.ts'
import type { CommitId } from './repositories.ts'

interface History {
  readonly head: CommitId
  readonly commits: Promise<ReadonlySet<string>>
}

/** The newest commits of one branch: read once for each head, and kept for the head that was asked for last. */
export class GitHistory {
  readonly #read: (head: CommitId) => Promise<ReadonlySet<string>>
  #known: History | undefined

  constructor(read: (head: CommitId) => Promise<ReadonlySet<string>>) {
    this.#read = read
  }

  /** Ids of `head` and of commits before it. @throws what `read` throws; the signal's reason */
  async upTo(head: CommitId, signal: AbortSignal): Promise<ReadonlySet<string>> {
    if (this.#known?.head !== head) {
      const begun: History = { head, commits: this.#read(head) }
      this.#known = begun
      begun.commits.catch(() => {
        if (this.#known === begun) this.#known = undefined // it is read again
      })
    }
    return await abortable(this.#known.commits, signal)
  }
}

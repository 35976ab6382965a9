import { abortable } from '../../lib/signals.ts'
import type { CommitId } from './repositories.ts'

/** Paths in one listing at most; bounds both argv and the answer. */
const maxPaths = 100

/** Entry of a commit's tree at one path. */
export interface TreeEntry {
  readonly mode: string
  readonly blob: string
  /** in bytes; NaN: the entry is not a file */
  readonly size: number
}

/**
 * Runs `git ls-tree -z -l --full-tree`.
 *
 * @param listing.take - called once, when git's turn has come; returns the paths
 */
export type ListTree = (listing: {
  commit: CommitId
  take: () => readonly string[]
  signal: AbortSignal
}) => Promise<string>

interface Listing {
  readonly paths: Set<string>
  readonly entries: Promise<ReadonlyMap<string, TreeEntry>>
  /** aborted once all of its readers have left */
  readonly left: AbortController
  readers: number
}

/**
 * Finds paths in commits. While a listing waits for its turn, it collects further paths of the same commit: a thousand
 * agents of one repository take ten processes.
 */
export class TreeListings {
  readonly #list: ListTree
  /** per commit: the listing that still collects paths */
  readonly #waiting = new Map<CommitId, Listing>()

  constructor(list: ListTree) {
    this.#list = list
  }

  /**
   * Returns the entry at `path`; `undefined`: there is none.
   *
   * @throws what the listing throws; the signal's reason
   */
  async entry(commit: CommitId, path: string, signal: AbortSignal): Promise<TreeEntry | undefined> {
    signal.throwIfAborted()
    const listing = this.#waiting.get(commit) ?? this.#begin(commit)
    listing.readers += 1
    listing.paths.add(path)
    if (listing.paths.size >= maxPaths) this.#close(commit, listing)
    try {
      return (await abortable(listing.entries, signal)).get(path)
    } finally {
      listing.readers -= 1
      if (listing.readers === 0) {
        this.#close(commit, listing)
        listing.left.abort()
      }
    }
  }

  #begin(commit: CommitId): Listing {
    const left = new AbortController()
    const paths = new Set<string>()
    const take = () => {
      this.#close(commit, listing)
      return [...paths]
    }
    const entries = this.#list({ commit, take, signal: left.signal }).then(parseEntries)
    entries.catch(() => undefined) // nobody awaits it when all readers have left
    const listing: Listing = { paths, entries, left, readers: 0 }
    this.#waiting.set(commit, listing)
    return listing
  }

  #close(commit: CommitId, listing: Listing): void {
    if (this.#waiting.get(commit) === listing) this.#waiting.delete(commit)
  }
}

function parseEntries(listed: string): ReadonlyMap<string, TreeEntry> {
  const entries = new Map<string, TreeEntry>()
  for (const line of listed.split('\0')) {
    const [, mode = '', blob = '', size, path] = /^(\d+) \w+ ([0-9a-f]+) +(-|\d+)\t(.*)$/s.exec(line) ?? []
    if (path !== undefined) entries.set(path, { mode, blob, size: Number(size) })
  }
  return entries
}

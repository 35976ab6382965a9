import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { type CommitId, isCommitId, type Reading } from '../../repositories/repositories.ts'
import type { Trees } from '../../repositories/tree.ts'

export interface ContainedCommitsComponents {
  readonly repositories: Pick<Trees, 'contains'>
  readonly clock: Clock
  readonly log: Logger
}

/** Questions to repositories at once: each is a call of Gitaly, or a fetch of Git. */
const maxRunning = 20
/** Answers that are kept: a history does not change. */
const maxKnown = 1000
/** A repository that could not be asked is asked again after this. ms */
const failedMs = 30_000

interface Known {
  /** undefined: it is being asked */
  readonly contains: boolean | undefined
  /** by the clock, in ms */
  readonly until: number
}

/** Whether heads contain the commits that gates ask for. Nobody waits for a repository: the next question gets what it has answered. */
export class ContainedCommits {
  readonly #components: ContainedCommitsComponents
  /** by project, head and commit; the oldest first */
  readonly #known = new Map<string, Known>()
  readonly #stopped = new AbortController()
  #running = 0

  constructor(components: ContainedCommitsComponents) {
    this.#components = components
  }

  /** @returns undefined: it is not known yet. A repository that cannot be asked contains nothing */
  find(reading: Reading, head: string, commit: string): boolean | undefined {
    if (head === commit) return true
    if (!isCommitId(head) || !isCommitId(commit)) return false
    const key = `${reading.project.id} ${head} ${commit}`
    const known = this.#known.get(key)
    if (known && this.#components.clock.now() < known.until) return known.contains
    if (this.#running < maxRunning && !this.#stopped.signal.aborted) void this.#ask(key, reading, head, commit)
    return undefined
  }

  stop(): void {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
    this.#known.clear()
  }

  async #ask(key: string, reading: Reading, head: CommitId, commit: CommitId): Promise<void> {
    const { repositories, clock, log } = this.#components
    this.#running++
    this.#keep(key, { contains: undefined, until: Number.POSITIVE_INFINITY })
    try {
      const contains = await repositories.contains(reading, head, commit, this.#stopped.signal)
      this.#keep(key, { contains, until: Number.POSITIVE_INFINITY })
    } catch (error) {
      log.debug({ error, project_id: String(reading.project.id) }, 'A repository could not be asked for a commit')
      this.#keep(key, { contains: false, until: clock.now() + failedMs })
    } finally {
      this.#running--
    }
  }

  #keep(key: string, known: Known): void {
    this.#known.delete(key)
    this.#known.set(key, known)
    const [oldest] = this.#known.keys()
    if (this.#known.size > maxKnown && oldest !== undefined) this.#known.delete(oldest)
  }
}

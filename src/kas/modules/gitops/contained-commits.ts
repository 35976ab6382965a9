import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { GroupTurns } from '../../../lib/group-turns.ts'
import type { Logger } from '../../../lib/log.ts'
import { SharedHistory } from '../../../lib/shared-history.ts'
import { linkedController } from '../../../lib/signals.ts'
import { type CommitId, isCommitId, type Reading } from '../../repositories/repositories.ts'
import type { Trees } from '../../repositories/tree.ts'

export interface ContainedCommitsComponents {
  readonly repositories: Pick<Trees, 'contains'>
  readonly clock: Clock
  readonly log: Logger
}

/** Questions to repositories at once: each is a call of Gitaly, or a fetch of Git. */
const maxRunning = 20
/** of one caller, over all agents: the others may be slow */
const maxRunningOfCaller = 10
/** Answers that are kept, as a history does not change, and questions that wait for their turn. */
const maxKnown = 1000
/** A repository that could not be asked is asked again after this. ms */
const failedMs = 30_000

interface Known {
  readonly key: string
  /** who asked first, and makes room where this caller has most */
  readonly source: string
  /** ends the question */
  readonly asking: ReturnType<typeof linkedController>
  /** undefined: it waits, or is being asked */
  contains: boolean | undefined
  /** by the clock, in ms */
  until: number
}

/**
 * Whether heads contain the commits that gates ask for. Nobody waits for a repository: the next question gets what it has
 * answered. Callers take turns, and share what is kept.
 */
export class ContainedCommits {
  readonly #components: ContainedCommitsComponents
  /** by project, head and commit */
  readonly #known = new Map<string, Known>()
  readonly #history = new SharedHistory<Known>({ maxWeight: maxKnown, lost: (known) => this.#lose(known) })
  readonly #turns = new GroupTurns<string, bigint>({
    maxRunning,
    maxRunningOfGroup: maxRunningOfCaller,
    maxWaitingOfGroup: 2 * maxKnown, // those that were lost just now have not left yet
    tooMany: () => new Error('the history has fewer places'),
  })
  readonly #stopped = new AbortController()

  constructor(components: ContainedCommitsComponents) {
    this.#components = components
  }

  /**
   * @param callerKey - who asks, over all agents
   * @returns undefined: it is not known yet. A repository that cannot be asked contains nothing
   */
  find(reading: Reading, head: string, commit: string, callerKey: string): boolean | undefined {
    if (head === commit) return true
    if (!isCommitId(head) || !isCommitId(commit)) return false
    const key = `${reading.project.id} ${head} ${commit}`
    const before = this.#known.get(key)
    if (before && this.#components.clock.now() < before.until) return before.contains
    if (this.#stopped.signal.aborted) return undefined
    if (before) this.#history.delete(before)
    const asking = linkedController(this.#stopped.signal)
    const known: Known = { key, source: callerKey, asking, contains: undefined, until: Number.POSITIVE_INFINITY }
    this.#known.set(key, known)
    this.#history.add(known)
    void this.#ask(known, reading, head, commit).finally(() => asking.dispose())
    return undefined
  }

  stop(): void {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
    this.#known.clear()
  }

  async #ask(known: Known, reading: Reading, head: CommitId, commit: CommitId): Promise<void> {
    const { repositories, clock, log } = this.#components
    const { signal } = known.asking
    let end = () => {}
    try {
      end = await this.#turns.take(known.source, reading.project.id, signal)
      known.contains = await repositories.contains(reading, head, commit, signal)
    } catch (error) {
      if (signal.aborted) return
      log.debug({ error, project_id: String(reading.project.id) }, 'A repository could not be asked for a commit')
      known.contains = false
      known.until = clock.now() + failedMs
    } finally {
      end()
    }
  }

  #lose(known: Known): void {
    this.#known.delete(known.key)
    known.asking.abort(new KasError({ code: 'CANCELLED' }))
  }
}

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
/** questions of one caller at once, over all agents: they may be slow */
const maxRunningOfCaller = 10
/** Answers that are kept, since a history does not change, and questions that wait for their turn. */
const maxKnown = 1000
/** Time after which a repository that could not be asked is asked again, in ms. */
const failedMs = 30_000

interface Known {
  readonly key: string
  /** caller that asked first; an entry of the caller with the most makes room */
  readonly source: string
  /** ends the question */
  readonly asking: ReturnType<typeof linkedController>
  /** undefined: it waits for its turn, or for an answer */
  contains: boolean | undefined
  /** by the clock, in ms */
  until: number
}

/**
 * Answers if heads contain the commits of gates. No caller waits for a repository: the next question gets its answer.
 * Callers take turns, and share the room.
 */
export class ContainedCommits {
  readonly #components: ContainedCommitsComponents
  /** answers by project, head and commit */
  readonly #known = new Map<string, Known>()
  readonly #history = new SharedHistory<Known>({ maxWeight: maxKnown, lost: (known) => this.#lose(known) })
  readonly #turns = new GroupTurns<string, bigint>({
    maxRunning,
    maxRunningOfGroup: maxRunningOfCaller,
    maxWaitingOfGroup: 2 * maxKnown, // dropped ones may not have left yet
    tooMany: () => new Error('the history has fewer places'),
  })
  readonly #stopped = new AbortController()

  constructor(components: ContainedCommitsComponents) {
    this.#components = components
  }

  /**
   * True if `head` contains `commit`; false also if the repository cannot be asked.
   *
   * @param callerKey - the caller, over all agents
   * @returns undefined: it is not known yet
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

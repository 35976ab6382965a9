import { type SourceNaming, sourceId, type UnreadableSource, unresolvedId } from '../source-options.ts'
import type { StatusSink } from './status-sink.ts'

export interface UnfollowedRowsOptions {
  readonly agentId: bigint
  /** full path */
  readonly ownProject: () => string
  /** last known number of a project; undefined: it was never known */
  readonly projectId: (path: string) => bigint | undefined
}

/** Rows of sources that are not followed: their block cannot be used, or the configuration is not known. */
export class UnfollowedRows {
  readonly #status: Pick<StatusSink, 'unusable' | 'notFollowed' | 'remove'>
  readonly #options: UnfollowedRowsOptions
  /** ids of sources that the configuration has and that cannot be followed */
  readonly #refused = new Set<string>()
  /** ids of sources that were followed, and may not have left */
  readonly #resting = new Set<string>()

  constructor(status: Pick<StatusSink, 'unusable' | 'notFollowed' | 'remove'>, options: UnfollowedRowsOptions) {
    this.#status = status
    this.#options = options
  }

  /** Number of sources that cannot be used. */
  get refused(): number {
    return this.#refused.size
  }

  isRefused(id: string): boolean {
    return this.#refused.has(id)
  }

  /** Shows a configured source that cannot be followed. @param problem - key, value found and values allowed */
  refuse({ id, name }: SourceNaming, problem: string): void {
    const { agentId, ownProject, projectId: numberOf } = this.#options
    const project = id ?? ownProject()
    const block = { ...(id !== undefined && { id }), ...(name !== undefined && { name }) }
    const projectId = numberOf(project)
    const known =
      projectId === undefined
        ? unresolvedId({ block, agentId, ownProject: ownProject() })
        : sourceId(name, { agentId, projectId })
    this.#refused.add(known)
    this.#status.unusable({ ...block, id: known, environments: [], project }, problem)
  }

  /** Shows a source that may have left. */
  rest(id: string, reason: Parameters<StatusSink['notFollowed']>[1]): void {
    this.#resting.add(id)
    this.#status.notFollowed(id, reason)
  }

  /** Begins a new configuration. @param unusable - its unusable sources: their rows still show what they have made */
  readAnew(unusable: readonly UnreadableSource[]): void {
    const before = [...this.#refused]
    this.#refused.clear()
    for (const { project, name, problem } of unusable) this.refuse({ id: project, name }, problem)
    for (const id of before) if (!this.#refused.has(id)) this.#status.remove(id)
  }

  /**
   * Ends the rows of resting sources after a complete configuration. A source that it lacks is reported from its
   * inventory, if it has one.
   *
   * @param followed - ids
   */
  forgetResting(followed: ReadonlySet<string>): void {
    for (const id of this.#resting) if (!followed.has(id)) this.#status.remove(id)
    this.#resting.clear()
  }
}

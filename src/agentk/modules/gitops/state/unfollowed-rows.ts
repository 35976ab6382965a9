import { type SourceNaming, sourceId, type UnreadableSource, unresolvedId } from '../source-options.ts'
import type { StatusSink } from './status-sink.ts'

export interface UnfollowedRowsOptions {
  readonly agentId: bigint
  /** full path */
  readonly ownProject: () => string
  /** number of a project, as it was known last; undefined: never */
  readonly projectId: (path: string) => bigint | undefined
}

/** Rows of sources that nobody follows: what the configuration has cannot be used, or is not known. */
export class UnfollowedRows {
  readonly #status: Pick<StatusSink, 'unusable' | 'notFollowed' | 'remove'>
  readonly #options: UnfollowedRowsOptions
  /** ids of sources that the configuration has and nobody can follow */
  readonly #refused = new Set<string>()
  /** ids of sources that were followed, and have perhaps not left */
  readonly #resting = new Set<string>()

  constructor(status: Pick<StatusSink, 'unusable' | 'notFollowed' | 'remove'>, options: UnfollowedRowsOptions) {
    this.#status = status
    this.#options = options
  }

  /** Of sources that cannot be used. */
  get refused(): number {
    return this.#refused.size
  }

  isRefused(id: string): boolean {
    return this.#refused.has(id)
  }

  /** It is in the configuration, and cannot be followed. @param problem - key, value and what is allowed */
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

  /** Whether it has left is not known. */
  rest(id: string, reason: Parameters<StatusSink['notFollowed']>[1]): void {
    this.#resting.add(id)
    this.#status.notFollowed(id, reason)
  }

  /** The configuration is read anew. @param unusable - of it: what these have made is in their rows still */
  readAnew(unusable: readonly UnreadableSource[]): void {
    const before = [...this.#refused]
    this.#refused.clear()
    for (const { project, name, problem } of unusable) this.refuse({ id: project, name }, problem)
    for (const id of before) if (!this.#refused.has(id)) this.#status.remove(id)
  }

  /** It was read whole: what it does not have is reported from its inventory, if it has one. @param followed - ids */
  forgetResting(followed: ReadonlySet<string>): void {
    for (const id of this.#resting) if (!followed.has(id)) this.#status.remove(id)
    this.#resting.clear()
  }
}

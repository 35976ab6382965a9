import { Listeners } from '../../lib/listeners.ts'
import type { Logger } from '../../lib/log.ts'
import type { Repositories } from './repositories.ts'

/** A push to a branch of a project. */
export interface PushEvent {
  readonly projectId: bigint
  /** full path: `group/project` */
  readonly projectPath: string
  /** random, the same at all replicas */
  readonly id: bigint
}

/** Pushes that are announced to this replica. */
export interface Pushes {
  /** Calls the listeners of this replica. */
  publish(event: PushEvent): void
  /** Calls `listener` for each push, until the returned function is called. */
  onPush(listener: (event: PushEvent) => void): () => void
}

/** Pushes within this replica alone: listeners are called, and the repository is polled in the background. */
export class LocalPushes implements Pushes {
  readonly #repositories: Pick<Repositories, 'pollAfterNotice'>
  readonly #log: Logger
  readonly #listeners = new Listeners<PushEvent>()

  constructor(components: { repositories: Pick<Repositories, 'pollAfterNotice'>; log: Logger }) {
    this.#repositories = components.repositories
    this.#log = components.log
  }

  onPush(listener: (event: PushEvent) => void): () => void {
    return this.#listeners.add(listener)
  }

  publish(event: PushEvent): void {
    const { projectId } = event
    this.#log.debug({ project_id: String(projectId) }, 'A push was announced')
    this.#listeners.notify(event)
    this.#repositories
      .pollAfterNotice(projectId)
      .catch((error: unknown) =>
        this.#log.warn({ error, project_id: String(projectId) }, 'A push could not be followed up'),
      )
  }
}

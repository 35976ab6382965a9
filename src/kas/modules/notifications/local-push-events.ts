import type { Logger } from '../../../lib/log.ts'
import type { PushEvent, PushEvents } from './notifications.ts'

/** Looks at a project's repository now; nothing happens if no agent follows it. */
export interface PokedRepositories {
  poke(projectId: bigint): Promise<void>
}

/** Tells this replica alone: its repository is looked at, which nobody waits for. */
export class LocalPushEvents implements PushEvents {
  readonly #repositories: PokedRepositories
  readonly #log: Logger

  constructor(components: { repositories: PokedRepositories; log: Logger }) {
    this.#repositories = components.repositories
    this.#log = components.log
  }

  async publish({ projectId }: PushEvent): Promise<void> {
    this.#log.debug({ project_id: String(projectId) }, 'A push was told')
    this.#repositories
      .poke(projectId)
      .catch((error: unknown) =>
        this.#log.warn({ error, project_id: String(projectId) }, 'A push could not be followed up'),
      )
  }
}

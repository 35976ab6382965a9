import { Counter } from '../../../lib/counter.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Reading } from '../../repositories/repositories.ts'

/** of one project, followed by one agent, or left by it while they are still kept */
const maxRefs = 20

/** Which refs agents follow beside default branches: each costs polls, and with a directory file a mirror on the disk. */
export class FollowedRefs {
  /** how many streams follow each ref, by agent and project */
  readonly #refs = new Map<string, Counter<string>>()

  /**
   * @returns what ends it; to be called once
   * @throws KasError TOO_MANY_STREAMS
   */
  follow({ id, project, ref }: Reading): () => void {
    if (ref === undefined) return () => undefined
    const key = `${id} ${project.id}`
    const refs = this.#refs.get(key) ?? new Counter<string>()
    if (refs.of(ref) === 0 && refs.counts.size >= maxRefs) {
      throw new KasError({
        code: 'TOO_MANY_STREAMS',
        name: 'followed_refs_of_project',
        limit: maxRefs,
        what: 'refs of one project that an agent follows',
      })
    }
    this.#refs.set(key, refs)
    refs.add(ref)
    return () => {
      refs.add(ref, -1)
      if (refs.total === 0) this.#refs.delete(key)
    }
  }
}

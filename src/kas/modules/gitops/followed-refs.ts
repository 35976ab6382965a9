import { Counter } from '../../../lib/counter.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Reading } from '../../repositories/repositories.ts'

/** refs of one project that one agent follows, or has left while they are kept (`followed_refs_of_project`) */
const maxRefs = 20

/**
 * Counts the refs that agents follow beside default branches. Each costs polls and, with a directory file, a mirror on
 * the disk.
 */
export class FollowedRefs {
  /** streams per ref, by agent and project */
  readonly #refs = new Map<string, Counter<string>>()

  /**
   * @returns the function that ends it; to be called once
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

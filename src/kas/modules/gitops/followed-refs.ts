import { KasError } from '../../../lib/errors.ts'
import type { Reading } from '../../repositories/repositories.ts'

/** of one project, followed by one agent, or left by it while they are still kept */
const maxRefs = 20

/** Which refs agents follow beside default branches: each costs polls, and with a directory file a mirror on the disk. */
export class FollowedRefs {
  /** how many streams follow each ref, by agent and project */
  readonly #refs = new Map<string, Map<string, number>>()

  /**
   * @returns what ends it; to be called once
   * @throws KasError TOO_MANY_STREAMS
   */
  follow({ id, project, ref }: Reading): () => void {
    if (ref === undefined) return () => undefined
    const key = `${id} ${project.id}`
    const refs = this.#refs.get(key) ?? new Map<string, number>()
    if (!refs.has(ref) && refs.size >= maxRefs) {
      throw new KasError({
        code: 'TOO_MANY_STREAMS',
        limit: maxRefs,
        what: 'refs of one project that an agent follows',
      })
    }
    this.#refs.set(key, refs.set(ref, (refs.get(ref) ?? 0) + 1))
    return () => {
      const left = (refs.get(ref) ?? 0) - 1
      if (left > 0) refs.set(ref, left)
      else refs.delete(ref)
      if (refs.size === 0) this.#refs.delete(key)
    }
  }
}

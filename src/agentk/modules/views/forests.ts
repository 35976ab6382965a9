import { KasError } from '../../../lib/errors.ts'
import { Forest, type ForestComponents } from './forest.ts'
import type { ReadQuery } from './query.ts'
import type { RecordChange, Visibility } from './record.ts'

/** Of all views together: some 150 bytes each. */
export const maxNodes = 600_000

interface Shared {
  readonly forest: Forest
  users: number
}

/** One forest for all views that ask for the same and may see the same. */
export class Forests {
  readonly #components: Omit<ForestComponents, 'visibility'>
  readonly #shared = new Map<string, Shared>()

  constructor(components: Omit<ForestComponents, 'visibility'>) {
    this.#components = components
  }

  /**
   * The caller gives it back by `release`.
   *
   * @throws KasError TOO_MANY_STREAMS: too much is seen already
   */
  take(visibility: Visibility, query: ReadQuery): Forest {
    const key = `${visibility.key}\n${query.key}`
    const known = this.#shared.get(key)
    if (known) {
      known.users++
      return known.forest
    }
    let nodes = 0
    for (const { forest } of this.#shared.values()) nodes += forest.size
    if (nodes > maxNodes) throw new KasError({ code: 'TOO_MANY_STREAMS', limit: maxNodes, what: 'objects in views' })
    const forest = new Forest({ ...this.#components, visibility }, query)
    this.#shared.set(key, { forest, users: 1 })
    forest.start()
    return forest
  }

  release(forest: Forest): void {
    for (const [key, shared] of this.#shared) {
      if (shared.forest !== forest || --shared.users > 0) continue
      forest.stop()
      this.#shared.delete(key)
    }
  }

  change(change: RecordChange): void {
    for (const { forest } of this.#shared.values()) forest.change(change)
  }
}

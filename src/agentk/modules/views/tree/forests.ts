import { KasError } from '../../../../lib/errors.ts'
import type { RecordChange, Visibility } from '../store/record.ts'
import { Forest, type ForestComponents } from './forest.ts'
import type { ReadQuery } from './query.ts'
import { VisibleRecords, type VisibleRecordsComponents } from './visible-records.ts'

/** Bounds of objects in views, of some 150 bytes each. */
export interface ForestsOptions {
  /** objects in all views together (`objects_in_views`) */
  readonly maxNodes: number
  /** objects in one user's views (`objects_in_views_of_user`), so that others find room */
  readonly maxNodesPerUser: number
}

export const forestsDefaults: ForestsOptions = { maxNodes: 600_000, maxNodesPerUser: 300_000 }

interface Shared {
  readonly forest: Forest
  /** key of each view's user */
  readonly users: string[]
}

export type ForestsComponents = Omit<ForestComponents, 'visible'> & VisibleRecordsComponents

/** Shares one forest among all views with the same query and the same rights. */
export class Forests {
  readonly #components: ForestsComponents
  readonly #options: ForestsOptions
  readonly #shared = new Map<string, Shared>()
  /** by the key of the visibility, as long as there is a forest of it */
  readonly #byVisibility = new Map<string, { readonly visible: VisibleRecords; readonly forests: Set<Forest> }>()

  constructor(components: ForestsComponents, options: ForestsOptions = forestsDefaults) {
    this.#components = components
    this.#options = options
  }

  /**
   * Returns a forest, which the caller gives back by `release`.
   *
   * @throws KasError TOO_MANY_STREAMS: too much is seen already
   */
  take(visibility: Visibility, query: ReadQuery, user: string): Forest {
    const key = `${visibility.key}\n${query.key}`
    const known = this.#shared.get(key)
    if (known) {
      known.users.push(user)
      return known.forest
    }
    this.#checkRoom(user)
    const sharing = this.#byVisibility.get(visibility.key) ?? {
      visible: new VisibleRecords(this.#components, visibility),
      forests: new Set(),
    }
    this.#byVisibility.set(visibility.key, sharing)
    const forest = new Forest({ ...this.#components, visible: sharing.visible }, query)
    sharing.forests.add(forest)
    this.#shared.set(key, { forest, users: [user] })
    forest.start()
    return forest
  }

  /** @param user - user for whom it was taken */
  release(forest: Forest, user: string): void {
    for (const [key, { forest: one, users }] of this.#shared) {
      if (one !== forest) continue
      users.splice(users.indexOf(user), 1)
      if (users.length > 0) continue
      forest.stop()
      this.#shared.delete(key)
      this.#leave(forest)
    }
  }

  #leave(forest: Forest): void {
    const { key } = forest.visible.visibility
    const sharing = this.#byVisibility.get(key)
    sharing?.forests.delete(forest)
    if (sharing?.forests.size === 0) this.#byVisibility.delete(key)
  }

  /** @throws KasError TOO_MANY_STREAMS */
  #checkRoom(user: string): void {
    const { maxNodes, maxNodesPerUser } = this.#options
    let [all, own] = [0, 0]
    for (const { forest, users } of this.#shared.values()) {
      all += forest.size
      if (users.includes(user)) own += forest.size
    }
    if (own > maxNodesPerUser) {
      throw new KasError({
        code: 'TOO_MANY_STREAMS',
        name: 'objects_in_views_of_user',
        limit: maxNodesPerUser,
        what: 'objects in views of one user',
      })
    }
    if (all > maxNodes)
      throw new KasError({
        code: 'TOO_MANY_STREAMS',
        name: 'objects_in_views',
        limit: maxNodes,
        what: 'objects in views',
      })
  }

  change(change: RecordChange): void {
    for (const { visible, forests } of this.#byVisibility.values()) {
      const moved = visible.moved(change)
      if (moved) for (const forest of forests) forest.change(moved)
    }
  }
}

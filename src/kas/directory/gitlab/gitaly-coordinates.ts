import { Listeners } from '../../../lib/listeners.ts'
import type { GitalyCoordinates } from '../../repositories/gitaly/gitaly-coordinates.ts'

/** projects at once; the project that was learnt longest ago makes room */
const maxProjects = 20_000

interface Known {
  readonly coordinates: GitalyCoordinates
  /**
   * the object from another replica, which all agents of a project in one message share; undefined: GitLab answered
   * here
   */
  readonly given: GitalyCoordinates | undefined
  readonly at: number
}

/**
 * GitLab's last answer about each project's repository. It comes with each agent's token, and stays while GitLab is
 * unreachable.
 */
export class GitalyCoordinatesByProject {
  readonly #known = new Map<bigint, Known>()
  readonly #listeners = new Listeners<bigint>()
  /** features of the last answer */
  #features: { readonly text: string; readonly features: GitalyCoordinates['features'] } | undefined

  /** `undefined`: no agent of this project has come yet */
  repository(projectId: bigint): GitalyCoordinates | undefined {
    return this.#known.get(projectId)?.coordinates
  }

  /** Keeps an answer of GitLab. @param at - ms since 1970 */
  learn(projectId: bigint, coordinates: GitalyCoordinates, at: number): void {
    this.#learn(projectId, coordinates, at, undefined)
  }

  /**
   * Keeps another replica's answer, unless the known one is newer.
   *
   * @param at - when GitLab was asked, in ms since 1970
   */
  learnOlder(projectId: bigint, coordinates: GitalyCoordinates, at: number): void {
    const before = this.#known.get(projectId)
    if (before && (before.at >= at || before.given === coordinates)) return
    this.#learn(projectId, coordinates, at, coordinates)
  }

  #learn(projectId: bigint, said: GitalyCoordinates, at: number, given: GitalyCoordinates | undefined): void {
    const before = this.#known.get(projectId)
    const coordinates = this.#withSharedFeatures(said)
    this.#known.delete(projectId)
    this.#known.set(projectId, { coordinates, given, at })
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= maxProjects) break
      this.#known.delete(oldest)
    }
    if (JSON.stringify(before?.coordinates) === JSON.stringify(coordinates)) return
    this.#listeners.notify(projectId)
  }

  /** Shares one object of features between projects: GitLab returns the same hundred for each project of a storage. */
  #withSharedFeatures(coordinates: GitalyCoordinates): GitalyCoordinates {
    const text = JSON.stringify(coordinates.features)
    if (this.#features?.text !== text) this.#features = { text, features: coordinates.features }
    return { ...coordinates, features: this.#features.features }
  }

  /** Calls `listener` after the answer for a project changed, until the returned function is called. */
  onChange(listener: (projectId: bigint) => void): () => void {
    return this.#listeners.add(listener)
  }
}

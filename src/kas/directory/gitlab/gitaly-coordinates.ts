import { Listeners } from '../../../lib/listeners.ts'
import type { GitalyCoordinates } from '../../repositories/gitaly/gitaly-coordinates.ts'

/** projects at once; the one whose place was learnt longest ago makes room */
const maxProjects = 20_000

interface Known {
  readonly coordinates: GitalyCoordinates
  /** as another replica gave it: one object for all agents of a project that its message has */
  readonly given: GitalyCoordinates | undefined
  readonly at: number
}

/** What GitLab said last of each project's repository: learned with each agent's token, kept while GitLab is away. */
export class GitalyCoordinatesByProject {
  readonly #known = new Map<bigint, Known>()
  readonly #listeners = new Listeners<bigint>()
  /** those that were said last */
  #features: { readonly text: string; readonly features: GitalyCoordinates['features'] } | undefined

  /** `undefined`: no agent of this project has come yet */
  repository(projectId: bigint): GitalyCoordinates | undefined {
    return this.#known.get(projectId)?.coordinates
  }

  /** GitLab has just said so. @param at - ms since 1970 */
  learn(projectId: bigint, coordinates: GitalyCoordinates, at: number): void {
    this.#learn(projectId, coordinates, at, undefined)
  }

  /** GitLab has said so elsewhere. @param at - when it was asked: what is older than what is known here says nothing */
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

  /** GitLab says the same hundred of them for each project of a storage. */
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

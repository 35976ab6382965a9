import { Listeners } from '../../../lib/listeners.ts'
import type { Agent } from '../../agent.ts'
import type { TokenAnswer, TokenAnswers } from '../gitlab.ts'
import type { AnswerCache } from './answer-cache.ts'
import type { GitalyCoordinatesByProject } from './gitaly-coordinates.ts'

/** GitLab's answers for agents' tokens, and the locations of repositories that came with them. */
export class GitlabTokenAnswers implements TokenAnswers {
  readonly #cache: Pick<AnswerCache<Agent>, 'keys' | 'peek' | 'learn'>
  readonly #coordinates: Pick<GitalyCoordinatesByProject, 'repository' | 'learnOlder'>
  readonly #listeners = new Listeners<string>()

  constructor(components: {
    cache: Pick<AnswerCache<Agent>, 'keys' | 'peek' | 'learn'>
    coordinates: Pick<GitalyCoordinatesByProject, 'repository' | 'learnOlder'>
  }) {
    this.#cache = components.cache
    this.#coordinates = components.coordinates
  }

  hashes(): Iterable<string> {
    return this.#cache.keys()
  }

  of(hash: string): TokenAnswer | undefined {
    const known = this.#cache.peek(hash)
    if (!known) return undefined
    const { value: agent, from: askedAt } = known
    return { agent, askedAt, coordinates: this.#coordinates.repository(agent.project.id) }
  }

  onAnswer(listener: (hash: string) => void): () => void {
    return this.#listeners.add(listener)
  }

  learn(hash: string, { agent, askedAt, coordinates }: TokenAnswer): void {
    if (!this.#cache.learn(hash, agent, askedAt)) return
    if (coordinates) this.#coordinates.learnOlder(agent.project.id, coordinates, askedAt)
  }

  /** Calls the listeners after GitLab answered for a token. */
  notify(hash: string): void {
    this.#listeners.notify(hash)
  }
}

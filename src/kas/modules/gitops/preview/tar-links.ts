import { dirname, join } from 'node:path/posix'

/** Links that lead to one another, as of a commit. */
const maxHops = 5
/** Paths that links lead to, whose content is kept: `followLinks` follows fewer. */
const maxTargets = 250

/** Paths that chosen links lead to. */
export class LinkTargets {
  readonly #links: ReadonlyMap<string, string>
  readonly #targets = new Set<string>()

  /** @param links - targets of all links so far, by path */
  constructor(links: ReadonlyMap<string, string>) {
    this.#links = links
  }

  has(path: string): boolean {
    return this.#targets.has(path)
  }

  /** Adds what a link leads to, through the links that are known. */
  follow(link: string): void {
    let path = link
    for (let hop = 0; hop < maxHops; hop++) {
      const target = this.#links.get(path)
      if (target === undefined || this.#targets.size >= maxTargets) return
      path = join(dirname(path), target)
      this.#targets.add(path)
    }
  }
}

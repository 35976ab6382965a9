import { setImmediate } from 'node:timers/promises'
import { KasError } from '../../../lib/errors.ts'
import { type FileChoice, isHidden } from './chosen-files.ts'
import { ComparedPath, type Effort } from './glob-match.ts'

/** Steps of all comparisons, as `Effort` counts: a second of the event loop. */
const maxSteps = 100_000_000
/** Steps in one turn of the event loop: about 1 ms, and one comparison more. */
const stepsAtOnce = 100_000

/** Decides path by path, for files that come one after another. `chosenFiles` checks the choice as a whole. */
export class PathChoice {
  readonly #choice: FileChoice
  readonly #named: ReadonlySet<string>
  readonly #effort: Effort = { steps: 0 }
  #pausedAt = 0

  constructor(choice: FileChoice) {
    this.#choice = choice
    this.#named = new Set(choice.files)
  }

  /** True if a glob matches the path, or a single file is named so. @throws KasError MANIFESTS_REFUSED */
  async chooses(path: string): Promise<boolean> {
    if (this.#named.has(path)) return true
    if (isHidden(path)) return false
    const compared = new ComparedPath(path)
    for (const { folder, alternatives } of this.#choice.globs) {
      if (folder !== '' && !path.startsWith(`${folder}/`)) continue
      for (const matches of alternatives) {
        const isMatch = matches(compared, this.#effort)
        await this.#pause()
        if (isMatch) return true
      }
    }
    return false
  }

  /** @throws KasError MANIFESTS_REFUSED */
  async #pause(): Promise<void> {
    const { steps } = this.#effort
    if (steps > maxSteps) {
      throw new KasError({ code: 'MANIFESTS_REFUSED', detail: 'the globs take too long to compare with all files' })
    }
    if (steps - this.#pausedAt < stepsAtOnce) return
    this.#pausedAt = steps
    await setImmediate()
  }
}

import { placeKey } from '../../../../kubernetes/key.ts'
import { type KubernetesObject, kindOf, nameOf, namespaceOf } from '../../../../kubernetes/object.ts'
import type { Finding } from '../finding.ts'
import type { Candidate } from './choosing.ts'
import { chooseOf } from './choosing.ts'
import { explanationOf, maxSteps, type Surroundings } from './explaining.ts'

/** The end of a chain of explanations. */
export interface ChainEnd {
  readonly culprit: KubernetesObject
  readonly finding: Finding
  /** begin of the finding, else of what it explains; ms since 1970 */
  readonly since: number | undefined
  readonly count: number
  readonly steps: number
  /** further causes of what it explains, by their keys */
  readonly others: ReadonlySet<string>
}

const none: ReadonlySet<string> = new Set()

/** Follows findings of one caller to their causes. Each is followed once. */
export class CauseChains {
  readonly #around: Surroundings
  readonly #shown: (object: KubernetesObject) => Finding | undefined
  readonly #sees: (object: KubernetesObject) => boolean
  readonly #known = Array.from({ length: maxSteps + 1 }, () => new Map<KubernetesObject, ChainEnd>())

  /**
   * @param sees - true if the caller may list an object
   * @param shown - returns the finding that the caller sees on an object that the caller may list
   */
  constructor(
    around: Surroundings,
    sees: (object: KubernetesObject) => boolean,
    shown: (object: KubernetesObject) => Finding | undefined,
  ) {
    this.#around = around
    this.#sees = sees
    this.#shown = shown
  }

  endOf(object: KubernetesObject, finding: Finding, steps = maxSteps): ChainEnd {
    const known = this.#known[steps]?.get(object)
    if (known) return known
    const end = this.#follow(object, finding, steps)
    this.#known[steps]?.set(object, end)
    return end
  }

  #follow(object: KubernetesObject, finding: Finding, steps: number): ChainEnd {
    const self = { culprit: object, finding, since: finding.since, count: finding.count, steps: 0, others: none }
    if (steps === 0) return self
    const { explains, isTheirs, isNamed, ...all } = explanationOf(object, finding, this.#around, this.#sees)
    const objects = all.objects.filter((one) => one !== object && this.#sees(one))
    const ends = new Map<string, ChainEnd>()
    const candidates: Candidate[] = []
    for (const one of objects) {
      const found = this.#shown(one)
      if (!found || !explains(found)) continue
      const end = this.endOf(one, found, steps - 1)
      candidates.push({ ...end, failing: one, word: found.word, depth: end.steps, isSummary: false, above: [] })
      ends.set(keyOf(end.culprit), end)
    }
    const { cause, others } = chooseOf(candidates) ?? {}
    const end = cause && ends.get(placeKey(cause.kind, cause.namespace, cause.name))
    const [only, ...rest] = objects
    if (!end) return isNamed && only && rest.length === 0 ? { ...self, culprit: only, steps: 1 } : self
    const count = isTheirs ? cause.count : finding.count
    return { ...end, since: cause.since ?? finding.since, count, steps: end.steps + 1, others: others ?? none }
  }
}

const keyOf = (object: KubernetesObject) => placeKey(kindOf(object), namespaceOf(object), nameOf(object))

import { type KubernetesObject, kindOf, namespaceOf } from '../../../../kubernetes/object.ts'
import type { ArgoStatus } from '../../argo/health.ts'
import { type Finding, lesser, type Need, ranks, severityOf } from '../finding.ts'
import { lastRunFailed } from '../jobs.ts'
import type { Opinion } from '../opinion.ts'
import { CauseChains } from './cause-chains.ts'
import { type Candidate, type Cause, choose } from './choosing.ts'
import { type Counted, countedOf, wordAbove } from './counting.ts'
import type { Surroundings } from './explaining.ts'

/** limit of levels of children below a root */
const maxDepth = 64

/** Verdict on a root for one caller, with its cause. */
export interface Judged {
  readonly verdict: ArgoStatus
  readonly cause: Cause | undefined
  /** time at which it was first seen, if `since` is not known. ms since 1970 */
  readonly atLeast: number | undefined
}

/** True if a caller may list a kind (`group/Kind`, or `Event`) in a namespace, '' for cluster-scoped kinds. */
export type MayList = (kind: string, namespace: string) => boolean

/** Objects, with the findings on each. */
export interface World extends Surroundings {
  opinionOf(object: KubernetesObject, shown: Finding | undefined): Opinion
}

/** Gives failed runs the begin of the CronJob's finding, the first of the row. @param begin - index of the first */
function sinceFirstRun(candidates: Candidate[], begin: number, { since: first }: Finding): void {
  for (const [i, one] of candidates.entries()) {
    const { word, since } = one
    if (i < begin || word !== 'Degraded' || first === undefined || since === undefined) continue
    candidates[i] = { ...one, since: Math.min(since, first) }
  }
}

/** Judges roots as one caller sees them. */
export class Judge {
  readonly #world: World
  readonly #mayList: MayList
  readonly #chains: CauseChains
  readonly #opinions = new Map<KubernetesObject, Opinion>()

  constructor(world: World, mayList: MayList) {
    this.#world = world
    this.#mayList = mayList
    const sees = (object: KubernetesObject) => this.#sees(object)
    this.#chains = new CauseChains(world, sees, (object) => this.#opinionOf(object).finding)
  }

  /** Judges a root, or several that people see as one. The caller may list them. @param roots - at least one */
  judgeAll(roots: readonly KubernetesObject[]): Judged {
    const candidates: Candidate[] = []
    const met = new Set<KubernetesObject>()
    let verdict: ArgoStatus = 'Healthy'
    for (const root of roots) {
      const word = this.#walk({ child: root, atMost: 'Degraded' }, [], met, candidates)
      if (severityOf(word) > severityOf(verdict)) verdict = word
    }
    const chosen = choose(candidates)
    const isShown = chosen && (verdict !== 'Healthy' || chosen.word === 'Degraded')
    const cause = isShown ? chosen : undefined
    const atLeast = cause && cause.since === undefined ? (cause.seen ?? this.#world.now) : undefined
    return { verdict, cause, atLeast }
  }

  /** @returns the verdict on an object and what it counts */
  #walk(
    { child: object, atMost }: Counted,
    above: readonly KubernetesObject[],
    met: Set<KubernetesObject>,
    into: Candidate[],
  ): ArgoStatus {
    met.add(object)
    const opinion = this.#opinionOf(object)
    if (opinion.finding) into.push(this.#candidate(object, opinion.finding, atMost, above))
    const begin = into.length
    let worst: ArgoStatus = 'Healthy'
    const children = above.length === maxDepth ? [] : this.#world.childrenOf(object).filter((one) => this.#sees(one))
    const path = [...above, object]
    for (const counted of countedOf(object, children, this.#world.now)) {
      if (met.has(counted.child)) continue
      const below = { child: counted.child, atMost: lesser(counted.atMost, atMost) }
      const word = this.#walk(below, path, met, into)
      if (severityOf(word) > severityOf(worst)) worst = word
    }
    if (opinion.finding?.reason === lastRunFailed) sinceFirstRun(into, begin, opinion.finding)
    return lesser(wordAbove(object, opinion, worst), atMost)
  }

  #candidate(
    object: KubernetesObject,
    finding: Finding,
    atMost: ArgoStatus,
    above: readonly KubernetesObject[],
  ): Candidate {
    const { steps, ...end } = this.#chains.endOf(object, finding)
    const word = lesser(finding.word, atMost)
    const isSummary = finding.rank === ranks.summary
    return { ...end, failing: object, word, depth: above.length + steps, isSummary, above }
  }

  /** Forms the opinion by the first finding whose needs the caller may all list. */
  #opinionOf(object: KubernetesObject): Opinion {
    let opinion = this.#opinions.get(object)
    if (!opinion) {
      const findings = this.#world.findingsOf(object)
      const shown = findings.find(({ needs }) => needs.every((need) => this.#holds(need)))
      opinion = this.#world.opinionOf(object, shown)
      this.#opinions.set(object, opinion)
    }
    return opinion
  }

  #holds([kind, namespace]: Need): boolean {
    return this.#mayList(kind, namespace)
  }

  #sees(object: KubernetesObject): boolean {
    return this.#mayList(kindOf(object), namespaceOf(object))
  }
}

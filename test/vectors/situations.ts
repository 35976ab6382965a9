import { argoHealth } from '../../src/agentk/health/argo/argo.ts'
import { CustomRules } from '../../src/agentk/health/custom/custom-rules.ts'
import { vendorRules } from '../../src/agentk/health/custom/vendors.ts'
import type { RuleVerdicts } from '../../src/agentk/health/kas/opinion.ts'
import type { Judged } from '../../src/agentk/health/kas/root-causes/judge.ts'
import { type KubernetesObject, kindOf } from '../../src/kubernetes/object.ts'
import { judgedFor, Snapshot } from '../support/situations/snapshot.ts'

interface Place {
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

/** Expected answer for one caller and one root. Undefined fields are not compared. */
export interface Expectation {
  readonly root: Place
  readonly verdict: string
  readonly mayNotList?: readonly string[]
  readonly culprit?: Omit<Place, 'name'> & { readonly name?: string; readonly names?: readonly string[] }
  readonly count?: number
  readonly others?: number
  readonly reason?: string
  readonly messageIncludes?: readonly string[]
  readonly messageExcludes?: readonly string[]
  /** null: it cannot be known */
  readonly since?: string | null
}

/** A situation in the form of the shared files. */
export interface Situation {
  readonly name: string
  readonly now: string
  readonly objects: readonly KubernetesObject[]
  readonly events: readonly KubernetesObject[]
  readonly expect: readonly Expectation[]
}

export interface SituationsCompared {
  readonly situations: number
  readonly equal: number
  /** number of roots with a false verdict Degraded */
  readonly falseDegraded: number
  /** one line each */
  readonly differences: readonly string[]
}

/** number of orders in which objects and events are tried: the given one and shuffled ones */
const orders = 4

export function areSituations(content: readonly unknown[]): content is readonly Situation[] {
  return content.every((one) => typeof one === 'object' && one !== null && 'events' in one && Array.isArray(one.events))
}

export async function compareSituations(situations: readonly Situation[]): Promise<SituationsCompared> {
  const verdicts = await verdictsBy(situations)
  const differences: string[] = []
  let [equal, falseDegraded] = [0, 0]
  for (const situation of situations) {
    const found = new Set<string>()
    const degraded = new Set<Expectation>()
    for (let seed = 0; seed < orders; seed++) {
      const [objects, events] = [shuffled(situation.objects, seed), shuffled(situation.events, seed)]
      const snapshot = new Snapshot({ now: Date.parse(situation.now), objects, events, verdicts })
      for (const expectation of situation.expect) {
        const judged = judgeFor(snapshot, expectation)
        for (const one of differ(expectation, judged)) found.add(`${situation.name}: ${nameOf(expectation)}: ${one}`)
        if (judged?.verdict === 'Degraded' && expectation.verdict !== 'Degraded') degraded.add(expectation)
      }
    }
    if (found.size === 0) equal++
    falseDegraded += degraded.size
    differences.push(...found)
  }
  return { situations: situations.length, equal, falseDegraded, differences }
}

function judgeFor(snapshot: Snapshot, { root, mayNotList }: Expectation): Judged | undefined {
  const hidden = new Set(mayNotList)
  return judgedFor(snapshot, (kind) => !hidden.has(kind), [root.kind, root.namespace, root.name])
}

/** Returns the verdicts of the vendors' rules and of Argo CD. */
async function verdictsBy(situations: readonly Situation[]): Promise<(object: KubernetesObject) => RuleVerdicts> {
  const rules = new CustomRules(await vendorRules(), (kind, error) => {
    throw new Error(kind, { cause: error })
  })
  const kinds = new Set(situations.flatMap(({ objects }) => objects.map(kindOf)))
  for (const kind of kinds) await rules.ready(kind)
  return (object) => ({ argo: argoHealth(object, (one) => rules.judge(one)) })
}

/** @param seed - 0: the given order */
export function shuffled<Item>(items: readonly Item[], seed: number): readonly Item[] {
  const result = [...items]
  let state = seed
  for (let i = seed === 0 ? 0 : result.length - 1; i > 0; i--) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    const other = state % (i + 1)
    const [one, two] = [result[i] as Item, result[other] as Item]
    result[i] = two
    result[other] = one
  }
  return result
}

export function nameOf({ root, mayNotList }: Expectation): string {
  return `${root.kind}/${root.name}${mayNotList ? ` without ${mayNotList.join(', ')}` : ''}`
}

/** Returns the parts of an expectation that do not hold. @param judged - undefined: the root does not exist */
export function differ(expected: Expectation, judged: Judged | undefined): readonly string[] {
  if (!judged) return ['is not there']
  const { verdict, cause } = judged
  const differences: string[] = []
  const compare = (what: string, isEqual: boolean, has: unknown, wants: unknown) => {
    if (!isEqual) differences.push(`${what} ${JSON.stringify(has)}, not ${JSON.stringify(wants)}`)
  }
  compare('verdict', verdict === expected.verdict, verdict, expected.verdict)
  const { culprit, reason, count, others, since } = expected
  if (culprit) {
    const { kind, namespace, names = [culprit.name ?? ''] } = culprit
    const isIt = cause?.kind === kind && cause.namespace === namespace && names.includes(cause.name)
    compare('culprit', isIt, cause && [cause.kind, cause.namespace, cause.name], [kind, namespace, ...names])
  }
  if (reason !== undefined) compare('reason', cause?.reason === reason, cause?.reason, reason)
  if (count !== undefined) compare('count', cause?.count === count, cause?.count, count)
  if (others !== undefined) compare('others', cause?.others === others, cause?.others, others)
  const text = cause?.text ?? ''
  for (const part of expected.messageIncludes ?? []) compare('text without', text.includes(part), text, part)
  for (const part of expected.messageExcludes ?? []) compare('text with', !text.includes(part), text, part)
  if (since !== undefined) {
    const has = cause?.since === undefined ? null : Math.floor(cause.since / 1000)
    const wants = since === null ? null : Math.floor(Date.parse(since) / 1000)
    compare('since', has === wants, cause?.since && new Date(cause.since).toISOString(), since)
  }
  return differences
}

import { type CelInput, type CelValue, isCelError, parse, plan } from '@bufbuild/cel'
import type { KubernetesObject } from '../../../kubernetes/object.ts'
import { environment } from './cel-functions.ts'
import { countSteps, type Node, partsOf } from './count-steps.ts'
import { maxExpressionLength } from './expression-bounds.ts'
import { CountedMap, type Steps, spending, stepsOfParts } from './steps.ts'

/** Expressions of rules, with bounds that the library lacks: their cost is counted. */

/** limit of nested macros, such as `all` in `exists` */
export const maxComprehensionDepth = 2
/** elements for which a macro counts in `weight`: as many as labels are kept of an object */
const macroRange = 64
export type Bindings = Record<string, CelInput>

/** One expression, which may be evaluated for any number of objects. */
export class Expression {
  /** free names: those that no macro of the expression binds */
  readonly names: ReadonlySet<string>
  /** estimated cost: the parts of the expression; those of a macro count once for each of `macroRange` elements */
  readonly weight: number
  /** patterns of `matches`; undefined: a pattern that the expression makes */
  readonly patterns: readonly (string | undefined)[]
  /** steps of each evaluation, besides those of macros and functions */
  readonly #steps: number
  readonly #run: (bindings: Bindings) => ReturnType<ReturnType<typeof plan>>

  /** @throws Error that says where the expression cannot be parsed, or which bound it exceeds */
  constructor(text: string, maxDepth = maxComprehensionDepth) {
    if (text.length > maxExpressionLength)
      throw new Error(`an expression of more than ${maxExpressionLength} characters`)
    const parsed = parse(text)
    const names = new Set<string>()
    const patterns: (string | undefined)[] = []
    if (parsed.expr) addNames(parsed.expr, new Set(), names)
    this.weight = weightOf(parsed.expr, patterns)
    this.#steps = stepsOfParts(partsOf(parsed.expr))
    if (parsed.expr) countSteps(parsed.expr as unknown as Node, maxDepth)
    this.names = names
    this.patterns = patterns
    this.#run = plan(environment, parsed)
  }

  /** @throws Error: the expression has no value for this object */
  evaluate(bindings: Bindings, own: Steps): CelValue {
    own.take(this.#steps)
    const result = spending(own, () => this.#run(bindings))
    if (own.areSpent) throw new Error(`more than ${own.max} steps`) // `||` hides an error
    if (isCelError(result)) throw result
    return result
  }
}

/** @param patterns - receives the patterns of `matches` */
function weightOf(value: unknown, patterns: (string | undefined)[]): number {
  if (typeof value !== 'object' || value === null) return 0
  const { case: kind, value: of } = ((value as Node).exprKind ?? {}) as { case?: string; value?: Node }
  if (kind === 'callExpr' && of?.function === 'matches') {
    const { exprKind } = (of.args as Node[]).at(-1) ?? {}
    const constant = (exprKind as { value?: { constantKind?: { value?: unknown } } } | undefined)?.value?.constantKind
    patterns.push(typeof constant?.value === 'string' ? constant.value : undefined)
  }
  let weight = kind === undefined ? 0 : 1
  for (const inner of Object.values(kind === undefined ? value : (of ?? {}))) weight += weightOf(inner, patterns)
  return kind === 'comprehensionExpr' ? weight * macroRange : weight
}

/** Adds the names that no macro around them binds. */
function addNames(value: unknown, bound: ReadonlySet<string>, names: Set<string>): void {
  if (typeof value !== 'object' || value === null) return
  const { case: kind, value: of } = ((value as Node).exprKind ?? {}) as { case?: string; value?: Node }
  if (kind === 'identExpr') {
    if (!bound.has(of?.name as string)) names.add(of?.name as string)
  } else if (kind === 'comprehensionExpr' && of) {
    addNames(of.iterRange, bound, names)
    const inside = new Set([...bound, of.iterVar, of.iterVar2, of.accuVar] as string[])
    for (const part of ['accuInit', 'loopCondition', 'loopStep', 'result']) addNames(of[part], inside, names)
  } else for (const inner of Object.values(value)) addNames(inner, bound, names)
}

const hidden = new Set(['managedFields'])
/** Annotation that has the whole object once more, for a Secret its data too. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/** Converts an object for rules: whole numbers become ints. */
export function toCel(object: KubernetesObject): CelInput {
  const { metadata, ...rest } = object
  return convert({ ...rest, metadata: visible(metadata) })
}

function visible(metadata: unknown): unknown {
  if (typeof metadata !== 'object' || metadata === null) return {}
  const { annotations, ...rest } = metadata as { annotations?: Record<string, unknown> }
  const kept = Object.entries(annotations ?? {}).filter(([name]) => name !== lastApplied)
  const fields = Object.entries(rest).filter(([name]) => !hidden.has(name))
  return { ...Object.fromEntries(fields), annotations: Object.fromEntries(kept) }
}

function convert(value: unknown): CelInput {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value
  if (Array.isArray(value)) return value.map(convert)
  if (typeof value !== 'object' || value === null) return value as CelInput
  return new CountedMap(Object.entries(value).map(([name, one]) => [name, convert(one)])) as unknown as CelInput
}

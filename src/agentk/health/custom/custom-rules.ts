import { z } from 'zod'
import { type ArgoHealth, type ArgoStatus, argoStatuses } from '../argo/health.ts'
import { type KubernetesObject, kindOf } from '../object.ts'
import { type Bindings, Expression, maxExpressionLength, reservedNames, Steps, toCel } from './cel.ts'

const nameSchema = z
  .string()
  .regex(/^[a-z][A-Za-z0-9]*$/)
  .refine((name) => !reservedNames.has(name), 'a name that expressions cannot use')

/** Of one kind: names for expressions, and rules of which the first that is true decides. */
export const customRuleSchema = z.strictObject({
  kind: z.string().regex(/^([a-z0-9.*-]+\/)?[A-Za-z0-9*]+$/, 'group/Kind, or Kind of the core group; * is any'),
  let: z.record(nameSchema, z.string().max(maxExpressionLength)).default({}),
  rules: z
    .array(
      z.strictObject({
        when: z.string().max(maxExpressionLength),
        verdict: z.enum(argoStatuses),
        /** an expression; absent: no text */
        text: z.string().max(maxExpressionLength).optional(),
      }),
    )
    .min(1),
  tests: z
    .array(z.strictObject({ object: z.record(z.string(), z.unknown()), verdict: z.enum(argoStatuses).nullable() }))
    .default([]),
})
export type CustomRuleSource = z.infer<typeof customRuleSchema>

/** kinds that users write rules for */
const maxRules = 64
/** `health` of views.yaml. */
export const customRulesSchema = z.array(customRuleSchema).max(maxRules)

/** characters of a text that is shown */
const maxText = 512

interface Rule {
  readonly when: Expression
  readonly verdict: ArgoStatus
  readonly text: Expression | undefined
}

/** What is said of one object, and what was wrong with the rules on the way. */
export interface CustomHealth {
  /** absent: no rule is true */
  readonly health: ArgoHealth | undefined
  readonly errors: readonly string[]
}

/** The rules of one kind, ready to be used. */
export class CustomRule {
  readonly #names: readonly (readonly [name: string, value: Expression])[]
  readonly #rules: readonly Rule[]

  /** @throws Error that names the expression that cannot be used, or the test that fails */
  constructor(source: CustomRuleSource) {
    this.#names = Object.entries(source.let).map(([name, text]) => [name, compile(`let.${name}`, text)])
    this.#rules = source.rules.map(({ when, verdict, text }, i) => ({
      when: compile(`rules[${i}].when`, when),
      verdict,
      text: text === undefined ? undefined : compile(`rules[${i}].text`, text),
    }))
    for (const [i, { object, verdict }] of source.tests.entries()) this.#test(`tests[${i}]`, object, verdict)
  }

  /** An expression that has no value is false, and told. */
  judge(object: KubernetesObject): CustomHealth {
    const steps = new Steps()
    const errors: string[] = []
    let bindings: Bindings
    try {
      bindings = { object: toCel(object) }
    } catch (error) {
      return { health: undefined, errors: [(error as Error).message] } // nested too deep
    }
    for (const [name, expression] of this.#names) {
      try {
        bindings[name] = expression.evaluate(bindings, steps)
      } catch {
        // told by who uses it
      }
    }
    for (const { when, verdict, text } of this.#rules) {
      try {
        if (when.evaluate(bindings, steps) !== true) continue
      } catch (error) {
        errors.push((error as Error).message)
        continue
      }
      return { health: { status: verdict, text: textOf(text, bindings, steps, errors) }, errors }
    }
    return { health: undefined, errors }
  }

  #test(name: string, object: KubernetesObject, wanted: ArgoStatus | null): void {
    const { health, errors } = this.judge(object)
    const found = health?.status ?? null
    if (found !== wanted) throw new Error([`${name}: ${found}, not ${wanted}`, ...errors].join('; '))
  }
}

function textOf(text: Expression | undefined, bindings: Bindings, steps: Steps, errors: string[]): string {
  if (!text) return ''
  try {
    const value = text.evaluate(bindings, steps)
    return typeof value === 'string' ? value.slice(0, maxText) : ''
  } catch (error) {
    errors.push((error as Error).message)
    return ''
  }
}

function compile(name: string, text: string): Expression {
  try {
    return new Expression(text)
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`)
  }
}

/** Rules by kind; they are made ready when the first object of a kind comes. */
export class CustomRules {
  readonly #sources: readonly CustomRuleSource[]
  readonly #byKind = new Map<string, CustomRule | undefined>()
  readonly #onBroken: (kind: string, error: unknown) => void

  /** @param onBroken - a rule that is not used, and why */
  constructor(sources: readonly CustomRuleSource[], onBroken: (kind: string, error: unknown) => void) {
    this.#sources = sources
    this.#onBroken = onBroken
  }

  /** Whether there is one for the kind, be it usable or not. */
  has(kind: string): boolean {
    return this.#find(kind) !== undefined
  }

  /** @returns undefined: no rule is for its kind, or none that can be used */
  judge(object: KubernetesObject): CustomHealth | undefined {
    const kind = kindOf(object)
    if (!this.#byKind.has(kind)) this.#byKind.set(kind, this.#ready(kind))
    return this.#byKind.get(kind)?.judge(object)
  }

  #ready(kind: string): CustomRule | undefined {
    const source = this.#find(kind)
    try {
      return source && new CustomRule(source)
    } catch (error) {
      this.#onBroken(kind, error)
      return undefined
    }
  }

  /** The exact one first. */
  #find(kind: string): CustomRuleSource | undefined {
    return this.#sources.find((one) => one.kind === kind) ?? this.#sources.find((one) => isLike(one.kind, kind))
  }
}

export function isLike(pattern: string, kind: string): boolean {
  const [patternGroup, patternKind] = split(pattern)
  const [group, name] = split(kind)
  return isLikeText(patternGroup, group) && isLikeText(patternKind, name)
}

const split = (kind: string): [group: string, name: string] => {
  const slash = kind.indexOf('/')
  return slash < 0 ? ['', kind] : [kind.slice(0, slash), kind.slice(slash + 1)]
}

function isLikeText(pattern: string, text: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  if (rest.length === 0) return pattern === text
  const last = rest.pop() as string
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false
  let at = first.length
  for (const piece of rest) {
    at = text.indexOf(piece, at)
    if (at < 0 || at + piece.length > text.length - last.length) return false
    at += piece.length
  }
  return true
}

import type { KubernetesObject } from '../../../kubernetes/object.ts'
import type { ArgoHealth, ArgoStatus } from '../argo/health.ts'
import { type Bindings, Expression, toCel } from './cel.ts'
import type { CustomRuleSource } from './custom-rule-schema.ts'
import { Steps } from './steps.ts'

/** limit of the characters of a text that is shown */
const maxText = 512

interface Rule {
  readonly when: Expression
  readonly verdict: ArgoStatus
  readonly text: Expression | undefined
}

/** Verdict on one object, and the errors of rules on the way. */
export interface CustomHealth {
  /** undefined: no rule is true */
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

  /**
   * Judges an object. An expression without a value counts as false, and is reported.
   *
   * @param begun - called before each rule with its index
   */
  judge(object: KubernetesObject, begun: (rule: number) => void = () => undefined): CustomHealth {
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
        // each rule that uses the name reports it
      }
    }
    for (const [i, { when, verdict, text }] of this.#rules.entries()) {
      begun(i)
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

import { type KubernetesObject, kindOf } from '../object.ts'
import type { CustomHealth, CustomRule } from './custom-rule.ts'
import type { CustomRuleSource } from './custom-rule-schema.ts'
import { isLike } from './kind-pattern.ts'

/** Rules by kind. Each is compiled once it is known that there are objects of its kind, CEL itself with the first. */
export class CustomRules {
  #sources: readonly CustomRuleSource[]
  /** undefined: it cannot be used */
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

  /** What cannot be used is told, and left out: there is no rule for its kind. */
  async check(): Promise<void> {
    if (this.#sources.length === 0) return
    const { CustomRule } = await import('./custom-rule.ts')
    this.#sources = this.#sources.filter((source) => this.#compile(CustomRule, source, source.kind))
  }

  /** Objects of the kind can be judged from now on. */
  async ready(kind: string): Promise<void> {
    const source = this.#find(kind)
    if (!source || this.#byKind.has(kind)) return
    const { CustomRule } = await import('./custom-rule.ts')
    this.#byKind.set(kind, this.#compile(CustomRule, source, kind))
  }

  /** @returns undefined: no rule is for its kind, or none that is ready */
  judge(object: KubernetesObject): CustomHealth | undefined {
    return this.#byKind.get(kindOf(object))?.judge(object)
  }

  #compile(of: typeof CustomRule, source: CustomRuleSource, kind: string): CustomRule | undefined {
    try {
      return new of(source)
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

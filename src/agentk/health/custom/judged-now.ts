/** Bytes for the names of a rule and an object; longer names are cut. */
const maxNameBytes = 1024
/** count, flag of a running evaluation, part, bytes of the names */
const fields = 4

export interface JudgedRule {
  /** number of this evaluation */
  readonly count: number
  /** `group/Kind` as in the rule */
  readonly kind: string
  /** `rules[0]`; empty: its names are evaluated, or it is compiled */
  readonly part: string
  /** `namespace/name`; empty: the rule is compiled */
  readonly object: string
}

/** The rule that a thread evaluates now, in memory that another thread reads, even while the first does not answer. */
export class JudgedNow {
  readonly memory: SharedArrayBuffer
  readonly #fields: Int32Array
  readonly #names: Uint8Array
  readonly #encoder = new TextEncoder()

  /** @param memory - of an instance in another thread */
  constructor(memory = new SharedArrayBuffer(fields * 4 + maxNameBytes)) {
    this.memory = memory
    this.#fields = new Int32Array(memory, 0, fields)
    this.#names = new Uint8Array(memory, fields * 4)
  }

  /** Evaluates, and names this rule meanwhile. */
  during<T>(kind: string, object: string, evaluate: () => T): T {
    const { written } = this.#encoder.encodeInto(`${kind}\n${object}`, this.#names)
    Atomics.store(this.#fields, 3, written)
    Atomics.store(this.#fields, 2, -1)
    Atomics.add(this.#fields, 0, 1)
    Atomics.store(this.#fields, 1, 1)
    try {
      return evaluate()
    } finally {
      Atomics.store(this.#fields, 1, 0)
    }
  }

  /** @param rule - index among the rules of the kind */
  at(rule: number): void {
    Atomics.store(this.#fields, 2, rule)
  }

  /** @returns undefined: no rule is evaluated */
  read(): JudgedRule | undefined {
    const [count, goesOn, part, bytes] = Array.from({ length: fields }, (_, i) => Atomics.load(this.#fields, i))
    if (!goesOn) return undefined
    const [kind = '', object = ''] = Buffer.from(this.#names.slice(0, bytes)).toString().split('\n')
    return { count: count ?? 0, kind, part: part === -1 ? '' : `rules[${part}]`, object }
  }
}

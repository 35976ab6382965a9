/** Bytes of the names of a rule and an object; what is longer is cut. */
const maxNameBytes = 1024
/** count, whether it goes on, part, bytes of the names */
const fields = 4

export interface JudgedRule {
  /** of evaluations: another one has another */
  readonly count: number
  /** as the rule names it */
  readonly kind: string
  /** `rules[0]`; before the first of them its names, and while it is compiled: empty */
  readonly part: string
  /** `namespace/name`; empty: none, the rule is compiled */
  readonly object: string
}

/** The rule that a thread evaluates now, in memory that another thread reads, even while the first one does not answer. */
export class JudgedNow {
  readonly memory: SharedArrayBuffer
  readonly #fields: Int32Array
  readonly #names: Uint8Array
  readonly #encoder = new TextEncoder()

  /** @param memory - of one that was made in another thread */
  constructor(memory = new SharedArrayBuffer(fields * 4 + maxNameBytes)) {
    this.memory = memory
    this.#fields = new Int32Array(memory, 0, fields)
    this.#names = new Uint8Array(memory, fields * 4)
  }

  /** Evaluates with this rule named meanwhile. */
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

  /** @param rule - its index, of those of the kind */
  at(rule: number): void {
    Atomics.store(this.#fields, 2, rule)
  }

  /** Undefined: none is evaluated. */
  read(): JudgedRule | undefined {
    const [count, goesOn, part, bytes] = Array.from({ length: fields }, (_, i) => Atomics.load(this.#fields, i))
    if (!goesOn) return undefined
    const [kind = '', object = ''] = Buffer.from(this.#names.slice(0, bytes)).toString().split('\n')
    return { count: count ?? 0, kind, part: part === -1 ? '' : `rules[${part}]`, object }
  }
}

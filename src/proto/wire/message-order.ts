import { KasError } from '../../lib/errors.ts'

/** What may follow what, `EOF` included; first the start. */
export type OrderTable = Readonly<Record<string, readonly string[]>>

/** Follows one side's messages by a table. */
export class MessageOrder {
  readonly #order: OrderTable
  #last = 'start'

  constructor(order: OrderTable) {
    this.#order = order
  }

  get last(): string {
    return this.#last
  }

  /** @throws KasError INVALID_MESSAGE, naming the step and what is allowed */
  accept(next: string): void {
    const allowed = this.#order[this.#last] as readonly string[]
    if (!allowed.includes(next)) {
      const detail = `forbidden transition from ${this.#last} to ${next}, allowed: ${allowed.join(', ')}`
      throw new KasError({ code: 'INVALID_MESSAGE', detail })
    }
    this.#last = next
  }

  end(): void {
    this.accept('EOF')
  }
}

import { KasError } from '../../lib/errors.ts'

/** Kinds that may follow each kind, including `EOF`; the first key is the start. */
export type OrderTable = Readonly<Record<string, readonly string[]>>

/** Checks the order of one side's messages by a table. */
export class MessageOrder {
  readonly #order: OrderTable
  #last = 'start'

  constructor(order: OrderTable) {
    this.#order = order
  }

  get last(): string {
    return this.#last
  }

  /** @throws KasError INVALID_MESSAGE with the wrong step and the allowed ones */
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

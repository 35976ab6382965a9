import { KasError } from './errors.ts'

/** What is kept for clients, such as events that have not come whole or not been sent: of one connection, or of all of a key. */
export class ByteBudget {
  readonly #maxBytes: number
  readonly #shared: ByteBudget | undefined
  #bytes = 0

  /** @param shared - counts them too */
  constructor(maxBytes: number, shared?: ByteBudget) {
    this.#maxBytes = maxBytes
    this.#shared = shared
  }

  /** @throws KasError MESSAGE_TOO_LARGE, then nothing was taken */
  take(bytes: number): void {
    const sum = this.#bytes + bytes
    if (sum > this.#maxBytes) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: sum, maxBytes: this.#maxBytes })
    this.#shared?.take(bytes)
    this.#bytes = sum
  }

  give(bytes: number): void {
    this.#shared?.give(bytes)
    this.#bytes -= bytes
  }
}

/** The same of each key, such as an agent. */
export class ByteBudgets<Key> {
  readonly #maxBytes: number
  readonly #keys = new Map<Key, { readonly bytes: ByteBudget; users: number }>()

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @returns what is counted of the key, until `leave` is called, once */
  enter(key: Key): { bytes: ByteBudget; leave: () => void } {
    const kept = this.#keys.get(key) ?? { bytes: new ByteBudget(this.#maxBytes), users: 0 }
    this.#keys.set(key, kept)
    kept.users++
    const leave = () => {
      kept.users--
      if (kept.users === 0) this.#keys.delete(key)
    }
    return { bytes: kept.bytes, leave }
  }
}

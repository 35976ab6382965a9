import { createHmac, randomBytes } from 'node:crypto'
import type { Caller } from '../../../../call/caller.ts'

/** Known at once: to make one takes some microseconds. */
const maxKnown = 10_000
const keyChars = 22

/** What replicas call a caller among themselves: one key for one name, which says nothing to whoever lacks their secret. */
export class CallerKeys {
  readonly #secret: Uint8Array
  /** by name, the one that came first first */
  readonly #known = new Map<string, Caller>()

  /** @param secret - which the replicas share; absent: there is one */
  constructor(secret: Uint8Array = randomBytes(32)) {
    this.#secret = secret
  }

  /** @param name - as in `Caller` */
  of(name: string): Caller {
    const known = this.#known.get(name)
    if (known) return known
    const key = createHmac('sha256', this.#secret).update(`kas-caller ${name}`).digest('base64url').slice(0, keyChars)
    const caller = { name, key }
    const [first] = this.#known.keys()
    if (first !== undefined && this.#known.size >= maxKnown) this.#known.delete(first)
    this.#known.set(name, caller)
    return caller
  }
}

import { createHmac, randomBytes } from 'node:crypto'
import type { Caller } from '../../../../call/caller.ts'

/** Known at once: to make one takes some microseconds. */
const maxKnown = 10_000
const keyChars = 22

export interface CallerNames {
  /** as in `Caller` */
  readonly name: string
  /** the user behind it: the same name, or that of whose job it is */
  readonly user: string
}

/** What replicas call a caller among themselves: one key for one name, which says nothing to whoever lacks their secret. */
export class CallerKeys {
  readonly #secret: Uint8Array
  /** by name, the one that came first first */
  readonly #known = new Map<string, string>()

  /** @param secret - which the replicas share; absent: there is one */
  constructor(secret: Uint8Array = randomBytes(32)) {
    this.#secret = secret
  }

  of({ name, user }: CallerNames): Caller {
    const key = this.#keyOf(name)
    return user === name ? { name, key } : { name, key, userKey: this.#keyOf(user) }
  }

  #keyOf(name: string): string {
    const known = this.#known.get(name)
    if (known !== undefined) return known
    const key = createHmac('sha256', this.#secret).update(`kas-caller ${name}`).digest('base64url').slice(0, keyChars)
    const [first] = this.#known.keys()
    if (first !== undefined && this.#known.size >= maxKnown) this.#known.delete(first)
    this.#known.set(name, key)
    return key
  }
}

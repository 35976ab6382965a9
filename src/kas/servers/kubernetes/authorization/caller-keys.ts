import { createHmac, randomBytes } from 'node:crypto'
import type { Caller } from '../../../../call/caller.ts'

/** Keys that are cached: computing one takes some microseconds. */
const maxKnown = 10_000
const keyChars = 22

export interface CallerNames {
  /** name as in `Caller` */
  readonly name: string
  /** user behind the caller: the same name, or the name of the job's user */
  readonly user: string
}

/** Computes the keys by which replicas name callers to each other. Without the shared secret a key reveals nothing. */
export class CallerKeys {
  readonly #secret: Uint8Array
  /** by name, the oldest first */
  readonly #known = new Map<string, string>()

  /** @param secret - secret that the replicas share; absent: a random one */
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

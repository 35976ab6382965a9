import { Listeners } from '../../lib/listeners.ts'
import type { Logger } from '../../lib/log.ts'
import type { Discovered } from './source.ts'

/** Bound of the addresses of one source. A longer list is cut: no kas has as many replicas. */
export const maxAddresses = 1000

/** an error may quote a server, so only its beginning is kept */
const maxErrorCharacters = 500

/** Failure of some parts of a source, while others answered. */
export interface Failing {
  readonly error: string
  /** true: a failed part had answered before, and its addresses are still listed */
  readonly stale: boolean
}

/** Last answer of a source, kept through its failures, with listeners for its changes. */
export class KnownAddresses {
  readonly #log: Logger
  readonly #listeners = new Listeners()
  #current: Discovered = { addresses: [], stale: false, answered: false }
  #cut = false

  constructor(components: { log: Logger }) {
    this.#log = components.log
  }

  current(): Discovered {
    return this.#current
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  /** @param failing - set if a part of the source failed */
  answered(addresses: readonly string[], failing?: Failing): void {
    const sorted = [...new Set(addresses)].sort()
    if (sorted.length > maxAddresses && !this.#cut) {
      this.#log.warn({ found: sorted.length, limit: maxAddresses }, 'Discovery found too many addresses')
    }
    this.#cut = sorted.length > maxAddresses
    this.#set({
      addresses: sorted.slice(0, maxAddresses),
      stale: failing?.stale ?? false,
      answered: true,
      ...(failing ? { error: failing.error.slice(0, maxErrorCharacters) } : {}),
    })
  }

  /** Keeps the addresses, and marks them as stale. */
  failed(error: string): void {
    const { addresses, answered } = this.#current
    this.#set({ addresses, stale: answered, answered, error: error.slice(0, maxErrorCharacters) })
  }

  /** Removes all listeners. */
  forgetListeners(): void {
    this.#listeners.clear()
  }

  #set(next: Discovered): void {
    const before = this.#current
    if (same(before, next)) return
    this.#current = next
    const known = next.addresses.length
    if (next.error !== undefined && before.error === undefined) {
      this.#log.warn({ reason: next.error, known }, 'Discovery fails, what it found before is kept')
    } else if (next.error === undefined && before.error !== undefined) {
      this.#log.info({ known }, 'Discovery answers')
    }
    this.#listeners.notify()
  }
}

function same(one: Discovered, other: Discovered): boolean {
  return (
    one.stale === other.stale &&
    one.answered === other.answered &&
    one.error === other.error &&
    one.addresses.length === other.addresses.length &&
    one.addresses.every((address, i) => address === other.addresses[i])
  )
}

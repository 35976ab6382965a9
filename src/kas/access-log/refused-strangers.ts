import { networkOf } from '../../lib/host-port.ts'
import { CountedLines, type CountedLinesComponents } from './counted-lines.ts'

/** A refusal for an address from which no caller was let in. */
export interface Refused {
  readonly event: 'refused' | 'agent_refused'
  /** a code of doc/reference/errors.md, or an outcome */
  readonly reason: string
  readonly address: string
}

/** Bound of addresses (networks of IPv6) that are counted separately in a minute; further ones are counted together. */
export const maxStrangers = 1000

/**
 * Refusals of strangers. The first of an address is written at once. The others of a minute are one line with their
 * number.
 */
export class RefusedStrangers {
  readonly #lines: CountedLines<Refused>

  constructor(components: CountedLinesComponents<Refused>) {
    const others = (refused: Refused) => ({ ...refused, address: 'others' })
    this.#lines = new CountedLines(components, { atOnce: 1, maxKeys: maxStrangers, others })
  }

  /** @returns true: it is the first of its address in a while and not counted, so the caller writes its line */
  add(refused: Refused): boolean {
    return this.#lines.add(networkOf(refused.address), refused)
  }

  /** Reports the counts so far. */
  stop(): void {
    this.#lines.stop()
  }
}
